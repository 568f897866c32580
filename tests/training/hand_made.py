"""Trees written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reground.critics.simple import SENTENCES
from reground.evaluation.trees import write_tree
from reground.methods.cr_planner.states import Goal, Observation, State
from reground.methods.cr_planner.tree import encode
from reground.treesearch.mcts import Node, Settings, Tree

Branch = tuple[Observation, float, int] | tuple[Observation, float, int, Mapping[str, object]]


def grown(parent: State, *following: Branch, example: str = "q") -> Tree[State]:
    """A tree whose root is the parent and whose children have these means, visits and data."""
    children = tuple(
        Node(
            state=parent.after(seen),
            label=seen.stage,
            visits=visits,
            value=mean * visits,
            rewards=(mean,) * visits,
            data=data[0] if data else {},
        )
        for seen, mean, visits, *data in following
    )
    value, visits = sum(child.value for child in children), sum(child.visits for child in children)
    root = Node(state=parent, visits=visits, value=value, expanded=True, children=children)
    return Tree(root=root, settings=Settings(), metadata={"passage_tokens": 100, "example": example})


def waiting(parent: State, goal: Goal) -> State:
    """The state in which a sub-goal is to be executed."""
    return parent.after(Observation(goal, SENTENCES[goal]))


def planted(out: Path, questions: int = 10, *, spelled: bool = False) -> None:
    """A training folder with one tree a question: a next step about a river is right, one about a hill is wrong.

    spelled: with every letter by itself.
    """
    for number in range(questions):
        question = State(f"Where does the boat number {number} sail?")
        right, wrong = planted_steps(number, spelled=spelled)
        tree = grown(
            waiting(question, "REASON"),
            (Observation("RATIONALE", right), 1.0, 4, {"logprob": -0.5}),
            (Observation("RATIONALE", wrong), 0.0, 4, {"logprob": -0.2}),
            example=f"q{number}",
        )
        write_tree(out / "trees" / f"q{number}.json", tree, encode)


def planted_steps(number: int, *, spelled: bool = False) -> tuple[str, str]:
    """A right and a wrong step."""
    rivers, hills = ("Danube", "Seine", "Rhine", "Elbe"), ("Zugspitze", "Brocken", "Snowdon", "Feldberg")
    right = f"It sails on the river {rivers[number % 4]}."
    wrong = f"It stands on the hill {hills[number % 4]}."
    return (" ".join(right.lower()), " ".join(wrong.lower())) if spelled else (right, wrong)
