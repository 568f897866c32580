"""Trees of planning: collected with the gold answers as reward, kept, resumed, and read back."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from reground.core.errors import AuthenticationError, ModelError
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling
from reground.core.programs import Execution, Program, Sandbox, Verdict
from reground.core.trajectory import Trajectory
from reground.evaluation.runner import EvalSettings
from reground.evaluation.task import Example, Score
from reground.evaluation.tasks.retrieval import Retrieval
from reground.methods.cr_planner import CRPlanner
from reground.models.scripted import ScriptedModel
from reground.training.critics.collect import GrownTree, Searching, collect_trees, read_trees
from reground.training.critics.pairs import tree_pairs
from reground.training.rows import Preference
from reground.training.settings import PairSettings
from reground.treesearch.mcts import Settings, walk
from tests.evaluation.fakes import SumTask

SETTINGS = EvalSettings(method="cr_planner", model="scripted", limit=3, concurrency=2)
SEARCH = Searching(Settings(simulations=8, in_flight=2, seed=1))


def solves(messages: Sequence[Message], sampling: Sampling) -> Reply | str:
    """Right about sums."""
    found = re.search(r"what is (\d+) \+", messages[-1].content)
    assert found is not None
    return f"Answer: {2 * int(found.group(1))}"


def planner(model: ScriptedModel):
    return CRPlanner(model=model, form=SumTask().form, retrieval=False, candidates=2)


async def test_one_tree_a_question_with_the_metric_as_reward(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []

    def on_tree(tree: GrownTree, total: int) -> None:
        told.append((tree.example, total))

    collected = await collect_trees(
        SumTask(), planner(ScriptedModel(solves)), SETTINGS, SEARCH, tmp_path / "out", on_tree=on_tree
    )
    trees = list(read_trees(tmp_path / "out"))
    assert {tree.metadata["example"] for tree in trees} == {example for example, _ in told}
    assert [total for _, total in told] == [3, 3, 3]
    assert [tree.root.mean for tree in trees] == [1.0, 1.0, 1.0]
    assert [tree.root.visits for tree in trees] == [8, 8, 8]
    assert all(tree.metadata["reward"] == "exact match" for tree in trees)
    assert all(tree.usage.calls > 0 for tree in collected.trees)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["settings"]["search"]["simulations"] == 8


async def test_a_wrong_branch_is_worth_less_than_a_right_one(tmp_path: Path) -> None:
    said = iter(["Answer: wrong", "Answer: 0"] * 100)
    model = ScriptedModel(lambda messages, sampling: next(said))
    one = EvalSettings(method="cr_planner", model="scripted", limit=1)
    await collect_trees(SumTask(1), planner(model), one, SEARCH, tmp_path / "out")
    (tree,) = read_trees(tmp_path / "out")
    assert {node.mean for _, node in walk(tree.root) if not node.children and node.visits} == {0.0, 1.0}
    ends = {node.state.observations[-1].text: node.mean for _, node in walk(tree.root) if node.state.observations}
    assert ends["Answer: 0"] == 1.0
    assert ends["Answer: wrong"] == 0.0


async def test_a_question_that_fails_has_no_tree_and_is_tried_again(tmp_path: Path) -> None:
    def fails(messages: Sequence[Message], sampling: Sampling) -> Reply | str | Exception:
        return ModelError("overloaded") if "1 + 1" in messages[-1].content else solves(messages, sampling)

    everything = EvalSettings(method="cr_planner", model="scripted", limit=None)
    collected = await collect_trees(SumTask(3), planner(ScriptedModel(fails)), everything, SEARCH, tmp_path / "out")
    assert collected.failed == {"q1": "ModelError: overloaded"}
    assert len(collected.trees) == 2
    again = await collect_trees(SumTask(3), planner(ScriptedModel(solves)), everything, SEARCH, tmp_path / "out")
    assert not again.failed
    assert len(again.trees) == 3


async def test_what_is_wrong_with_the_run_itself_stops_it(tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages, sampling: AuthenticationError("no key"))
    with pytest.raises(AuthenticationError):
        await collect_trees(SumTask(), planner(model), SETTINGS, SEARCH, tmp_path / "out")


class Moody:
    """A model that says what its seed makes it say, until it breaks; it is right in some of its moods."""

    name = "scripted"

    def __init__(self, breaks_after: int = 10**9) -> None:
        self.left = breaks_after

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        if self.left <= 0:
            raise AuthenticationError("the key has expired")
        self.left -= 1
        await asyncio.sleep(Random(messages[-1].content).random() / 500)
        lot = Random(f"{sampling.seed} {messages[-1].content}")
        thoughts = ["Let us add.", "Let us think.", "Let us see.", "Answer: 7"]
        answers = ["Answer: 0", "Answer: 2", "Answer: 7"]
        return [Reply(text=lot.choice(thoughts if sampling.n > 1 else answers)) for _ in range(sampling.n)]


def shapes(out: Path) -> list[list[tuple[str, int, float, tuple[float, ...]]]]:
    return [
        [(node.state.stage, node.visits, node.value, node.rewards) for _, node in walk(tree.root)]
        for tree in read_trees(out)
    ]


@pytest.mark.parametrize("breaks_after", [1, 4, 9])
async def test_a_collection_that_was_stopped_grows_the_trees_of_its_seed(tmp_path: Path, breaks_after: int) -> None:
    await collect_trees(SumTask(2), planner(Moody()), SETTINGS, SEARCH, tmp_path / "whole")
    with pytest.raises(AuthenticationError):
        await collect_trees(SumTask(2), planner(Moody(breaks_after)), SETTINGS, SEARCH, tmp_path / "out")
    await collect_trees(SumTask(2), planner(Moody()), SETTINGS, SEARCH, tmp_path / "out")
    assert shapes(tmp_path / "out") == shapes(tmp_path / "whole")


class Fickle:
    """A sandbox whose verdict depends on how often it was asked."""

    name = "fickle"

    def __init__(self, *, packages: bool = True) -> None:
        self.executed, self.packages = 0, packages

    async def execute(self, program: Program, /) -> Execution:
        self.executed += 1
        return Execution(verdict=Verdict.PASSED if self.executed % 2 else Verdict.TIMEOUT)


class ProgramTask(SumTask):
    """Answers are executed."""

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        assert sandbox is not None and sandbox.name == "fickle" and trajectory.answer is not None
        ran = await sandbox.execute(Program(source=trajectory.answer.text))
        return {self.primary: Score(value=float(ran.passed))}


async def test_what_a_reward_executes_is_executed_once(tmp_path: Path) -> None:
    box, out = Fickle(), tmp_path / "out"
    await collect_trees(ProgramTask(1), planner(Moody()), SETTINGS, SEARCH, out, sandbox=box)
    grown, executed = shapes(out), box.executed
    assert executed == SEARCH.settings.simulations
    (out / "trees" / "q0.json").unlink()
    await collect_trees(ProgramTask(1), planner(Moody(0)), SETTINGS, SEARCH, out, sandbox=box)
    assert (shapes(out), box.executed) == (grown, executed)


# Rankings


class Delta:
    """A retriever that finds the document asked for when the query names the delta."""

    name = "delta"

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        order = [7, *range(7)] if "delta" in query else range(20)
        return [Passage(id=f"d{i}", text=f"text {i}") for i in order][:k]


def writer() -> ScriptedModel:
    """Writes good queries and poor ones."""
    lot = Random(1)

    def says(messages: Sequence[Message], sampling: Sampling) -> str:
        prompt = messages[-1].content
        if "Write a search query" in prompt or "documents asked for" in prompt:
            return lot.choice(["river bed", "river delta"])
        return lot.choice(["Think of water.", "Think of sand.", "Answer: river delta"])

    return ScriptedModel(says)


RANKINGS = Retrieval("small", "nDCG@10", (Example(id="q", question="Where does sand go?"),), qrels={"q": {"d7": 1}})


async def test_a_task_of_rankings_has_trees_with_ndcg_as_the_reward(tmp_path: Path) -> None:
    made = CRPlanner(model=writer(), retriever=Delta(), answer="ranking", candidates=3, max_steps=8)
    one_question = EvalSettings(method="cr_planner", model="scripted", limit=1)
    searching = Searching(Settings(simulations=60, in_flight=4, seed=1))
    collected = await collect_trees(RANKINGS, made, one_question, searching, tmp_path / "out")
    assert not collected.failed
    (tree,) = read_trees(tmp_path / "out")
    assert tree.root.visits == 60
    assert (tree.metadata["reward"], tree.metadata["passage_tokens"]) == ("nDCG@10", made.passage_tokens)
    worth = {reward for _, node in walk(tree.root) for reward in node.rewards}
    assert worth == {1.0, 1 / math.log2(9)}
    made_pairs = [row for _, row in tree_pairs(tree, PairSettings(min_visits=1)) if isinstance(row, Preference)]
    queries = [row for row in made_pairs if row.kind == "query"]
    assert queries
    assert all((row.chosen, row.rejected) == ("river delta", "river bed") for row in queries)
