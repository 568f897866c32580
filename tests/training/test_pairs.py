"""The four sets of preferences, by hand."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.critics import KINDS, Kind
from reground.critics.simple import SENTENCES
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.evaluation.tasks.retrieval import Retrieval
from reground.methods.cr_planner.states import NOTHING, Observation, State, context
from reground.training.critics.pairs import gold_passages, make_pairs, sort_pairs, tree_pairs
from reground.training.rows import Preference, read_rows
from reground.training.settings import PairSettings
from reground.treesearch.mcts import Node, Settings, Tree, search, walk
from tests.evaluation.fakes import SumTask
from tests.methods.test_cr_planner_states import DANUBE, SEINE, walked
from tests.training.hand_made import grown, planted, waiting
from tests.treesearch.games import Leaves, trees

ALL = PairSettings(min_visits=1)


def rows(tree: Tree[State], settings: PairSettings = ALL, gold: frozenset[str] = frozenset()) -> list[Preference]:
    return [made for _, made in tree_pairs(tree, settings, gold) if isinstance(made, Preference)]


def faults(tree: Tree[State], settings: PairSettings, gold: frozenset[str] = frozenset()) -> Counter[str]:
    return Counter(made for _, made in tree_pairs(tree, settings, gold) if isinstance(made, str))


SIBLINGS = grown(
    waiting(walked("R"), "REASON"),
    (Observation("RATIONALE", "good"), 0.75, 4, {"logprob": -0.25, "finish_reason": "stop"}),
    (Observation("RATIONALE", "as good"), 0.75, 2),
    (Observation("RATIONALE", "poor"), 0.5, 2, {"logprob": -0.125}),
    (Observation("RATIONALE", "bad"), 0.0, 1),
    (Observation("RATIONALE", "never tried"), 0.0, 0),
)


def test_what_is_dropped_is_counted_by_its_reason() -> None:
    assert faults(SIBLINGS, ALL) == {"tie": 1, "few visits": 1}
    assert faults(SIBLINGS, PairSettings(min_visits=2)) == {"tie": 1, "few visits": 2}
    assert faults(SIBLINGS, PairSettings(min_visits=5)) == {"few visits": 4}
    strict = PairSettings(min_visits=2, min_margin=0.5)
    assert faults(SIBLINGS, strict) == {"tie": 1, "few visits": 2, "small margin": 1}


def test_a_row_tells_the_place_among_siblings_and_the_log_probability() -> None:
    (row, _) = rows(SIBLINGS)
    assert row.extra == {
        "label": "visits",
        "stage": "REASON",
        "chosen": {"place": 0, "known": {"logprob": -0.0625}, "logprob": -0.25},
        "rejected": {"place": 2, "known": {"logprob": 0.0625}, "logprob": -0.125},
    }


@settings(max_examples=40)
@given(trees, st.integers(1, 4), st.sampled_from([0.0, 0.2]))
def test_pairs_are_those_of_the_tree_search_and_every_sibling_is_accounted_for(game, visits, margin) -> None:
    played = asyncio.run(search(Leaves(), game, Settings(simulations=40))).root

    def planned(node: Node[object], state: State) -> Node[State]:
        below = tuple(
            planned(child, state.after(Observation("RATIONALE", f"{place}")))
            for place, child in enumerate(node.children)
        )
        return Node(state=state, visits=node.visits, value=node.value, expanded=True, children=below)

    root = planned(played, State("Q?"))
    tree = Tree(root=root, settings=Settings(), metadata={"passage_tokens": 9, "example": "q"})
    chosen = PairSettings(min_visits=visits, min_margin=margin)
    wanted = []
    for _, parent in walk(root):
        known = [child for child in parent.children if child.visits >= visits]
        best = max(known, key=lambda child: (child.mean, child.visits), default=None)
        lower = [(best.mean - child.mean, best.visits, child.visits) for child in known]
        wanted += [pair for pair in lower if pair[0] > 1e-9 and pair[0] >= margin]  # else a tie
    assert [(row.margin, *row.visits) for row in rows(tree, chosen)] == wanted

    def siblings(node: Node[State]) -> int:
        return max(0, len(node.children) - 1) + sum(map(siblings, node.children))

    assert len(list(tree_pairs(tree, chosen))) == siblings(root)


# What each critic is shown; its words are those of tests/methods/test_cr_planner_states.py

LONG = walked("R", "Q", "D", "R", "Q", "D", "R", "Q")
"""Rationales 1, 4 and 7, queries 2, 5 and 8, documents 3 and 6."""


@pytest.mark.parametrize(
    ("kind", "parent", "right", "wrong"),
    [
        ("rationale", waiting(LONG, "REASON"), Observation("RATIONALE", "right"), Observation("RATIONALE", "wrong")),
        ("query", waiting(LONG, "GENQUERY"), Observation("QUERY", "right"), Observation("QUERY", "wrong")),
        ("doc", waiting(LONG, "RETRIEVE"), Observation("DOC", DANUBE.text, DANUBE), Observation("DOC", NOTHING)),
        ("subgoal", LONG, *(Observation(goal, SENTENCES[goal]) for goal in ("RETRIEVE", "REASON"))),
    ],
)
def test_a_pair_has_the_context_that_the_critic_sees_in_a_plan(
    kind: Kind, parent: State, right: Observation, wrong: Observation
) -> None:
    goals = {"goal": "RETRIEVE"}, {"goal": "REASON"}
    (found,) = rows(grown(parent, (right, 1.0, 1, goals[0]), (wrong, 0.0, 1, goals[1])))
    assert (found.kind, found.prompt) == (kind, context(parent, kind, tokens=100))
    assert found.rejected == wrong.text
    assert right.text.partition(" Obey")[0][:20] in found.chosen
    assert found.extra["stage"] == parent.stage
    if kind == "subgoal":
        known = {"rank": 0.25, "QUERY>REASON": -0.5, "QUERY>GENQUERY": 0.0, "QUERY>RETRIEVE": 0.5}
        assert found.extra["chosen"] == {"place": 0, "known": known, "goal": "RETRIEVE"}


# Gold documents

DOCUMENTS = grown(
    waiting(walked("R", "Q"), "RETRIEVE"),
    (Observation("DOC", SEINE.text, SEINE), 1.0, 2, {"passage": SEINE.id, "score": 9.5}),
    (Observation("DOC", "Rhine", Passage(id="rhine", text="Rhine")), 0.0, 3),
    (Observation("DOC", DANUBE.text, DANUBE), 0.0, 1, {"passage": DANUBE.id, "score": 7.0}),
)


def test_gold_documents_are_put_above_the_others_only_where_that_is_asked_for() -> None:
    gold = frozenset({DANUBE.id})
    plain = sort_pairs([DOCUMENTS], PairSettings(min_visits=1, held_out=0.0), {"q": gold})
    assert {row.extra["label"] for row in plain.rows["training", "doc"]} == {"visits"}
    asked = sort_pairs([DOCUMENTS], PairSettings(min_visits=1, held_out=0.0, gold_documents=True), {"q": gold})
    found = [(row.rejected.count("Rhine"), row.extra["label"], row.margin) for row in asked.rows["training", "doc"]]
    assert found == [(1, "visits", 1.0), (0, "gold", 1.0), (1, "gold", 1.0)]
    assert asked.dropped["doc"] == {"against gold": 1}
    (row, *_) = [row for row in asked.rows["training", "doc"] if row.extra["label"] == "gold"]
    known = {"rank": pytest.approx(1 / 3 - 11 / 18), "score": pytest.approx(-0.1315789)}
    assert row.extra["chosen"] == {"place": 2, "known": known, "passage": DANUBE.id, "score": 7.0}
    assert row.extra["rejected"]["score"] == 9.5  # type: ignore[index, call-overload]
    assert row.extra["rejected"]["known"]["rank"] == pytest.approx(1 - 11 / 18)  # type: ignore[index, call-overload]


def test_tasks_tell_their_gold_passages() -> None:
    asked = (
        Example(id="a", question="?", golden_answers=("x",), metadata={"gold_ids": ["d1", "d2"]}),
        Example(id="b", question="?", golden_answers=("x",)),
    )
    answering = QuestionAnswering(name="qa_train", primary="token F1", loaded=asked)
    assert gold_passages(answering) == {"a": frozenset({"d1", "d2"})}
    ranking = Retrieval("r", "nDCG@10", (Example(id="q", question="?"),), qrels={"q": {"d7": 1, "d8": 0}})
    assert gold_passages(ranking) == {"q": frozenset({"d7"})}
    assert gold_passages(SumTask()) == {}


# Files


def test_a_question_is_for_training_or_held_out_never_both(tmp_path: Path) -> None:
    planted(tmp_path, 10)
    found = make_pairs(tmp_path, PairSettings(held_out=0.3))
    assert found.questions == {"training": 7, "held out": 3}
    train = read_rows(tmp_path / "data" / "rationale.jsonl", Preference)
    held = read_rows(tmp_path / "data" / "held-out" / "rationale.jsonl", Preference)
    assert (len(train), len(held)) == (7, 3)
    assert not {row.question for row in train} & {row.question for row in held}
    report = json.loads((tmp_path / "data" / "report.json").read_text())
    assert report["kinds"]["rationale"]["kept"] == {"training": 7, "held out": 3}
    assert set(report["kinds"]) == set(KINDS)
    assert (report["trees"], report["questions"]) == (10, {"training": 7, "held out": 3})


def test_the_same_trees_and_settings_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        planted(tmp_path / name)
        make_pairs(tmp_path / name, PairSettings())
    first, second = (
        {file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("data/**/*.json*")}
        for name in ("one", "two")
    )
    assert len(first) == 9
    assert first == second


def test_trees_that_cut_documents_differently_are_not_mixed() -> None:
    other = dataclasses.replace(SIBLINGS, metadata={**SIBLINGS.metadata, "passage_tokens": 7})
    with pytest.raises(DataError, match=r"different lengths \(7, 100 tokens\)"):
        sort_pairs([SIBLINGS, other], ALL)


def test_trees_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no trees here"):
        make_pairs(tmp_path, PairSettings())
