"""Trees that workers grow, without Ray: those of a collection in one process, whatever becomes of a worker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from reground import __version__
from reground.app.benchmark import open_bench
from reground.app.cli.train_critics import CriticsCollect
from reground.app.cluster.pool import Pool
from reground.app.cluster.worker import Spec
from reground.core.budget import Budget
from reground.evaluation.compare import Cell
from reground.evaluation.runner import EvalSettings
from reground.evaluation.tasks import load_training_task
from reground.methods.cr_planner import CRPlanner
from reground.models.options import ModelOptions
from reground.testing.openai_server import MockOpenAI
from reground.training.critics.collect import Searching, collect_trees
from reground.treesearch.mcts import Settings
from tests.cluster.near import Starts, books, moody
from tests.killing import effects

METHOD, QUESTIONS, SIMULATIONS = "cr_planner", 4, 6


def asked(folder, url, **options):
    """What `train critics collect` would be given."""
    return CriticsCollect(
        task=books(folder), model="openai/mock", settings={"retrieval": False, "candidates": 2},
        model_options=ModelOptions(base_url=url), simulations=SIMULATIONS, in_flight=2, **options,
    )  # fmt: skip


class Cluster:
    """Workers in this process for a collection, and what it told."""

    def __init__(self, given):
        self.given = given
        self.start = Starts(Spec(given, (METHOD,), Path.cwd(), __version__))
        self.simulations = 0
        self.on_simulation: Callable[[], None] = lambda: None

    def count(self, trees):
        self.simulations += 1
        self.on_simulation()

    async def collect(self, out, *, workers=2):
        """As the command does; without workers in this process."""
        given, cell = self.given, Cell(method=METHOD, tokens=None)
        task = load_training_task(given.task, given.data)
        base = EvalSettings(METHOD, given.model, limit=None, concurrency=given.concurrency, seed=given.seed)
        searching = Searching(Settings(simulations=SIMULATIONS, in_flight=given.in_flight, seed=given.seed))
        async with AsyncExitStack() as opened:
            bench = await opened.enter_async_context(open_bench(given, [METHOD], task, out))
            if workers:
                pool = Pool(self.start, workers=workers, capacity=given.concurrency // workers)
                bench = replace(bench, distribute=(await opened.enter_async_context(pool)).distribute)
            ready = bench.configure(cell, base, given.budget, searching)
            assert isinstance(ready.method, CRPlanner)
            return await collect_trees(
                task, ready.method, ready.settings, searching, out,
                elsewhere=ready.elsewhere, on_simulation=self.count,
            )  # fmt: skip


def files(out):
    return {path.name: path.read_bytes() for path in (out / "trees").iterdir()}


def costs(collected):
    return {grown.example: grown.usage for grown in collected.trees}


async def test_the_trees_are_those_of_one_process(tmp_path):
    async with MockOpenAI(moody) as server:
        given = asked(tmp_path, server.url)
        here, there = Cluster(given), Cluster(given)
        one = await here.collect(tmp_path / "here", workers=0)
        paid = len(server.received)
        others = await there.collect(tmp_path / "there")
        assert len(server.received) == 2 * paid
        again = Cluster(given)
        await again.collect(tmp_path / "there", workers=0)
        (tmp_path / "there" / "trees" / "q0.json").unlink()
        await again.collect(tmp_path / "there")
        assert len(server.received) == 2 * paid, "what workers did is found again, with them and without"
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert len(files(tmp_path / "here")) == QUESTIONS
    assert costs(one) == costs(others)
    assert here.simulations == there.simulations == QUESTIONS * SIMULATIONS
    assert [bool(each.questions) for each in there.start.near] == [True, True]
    assert sorted(effects(tmp_path / "here" / "journal.sqlite")) == sorted(
        effects(tmp_path / "there" / "journal.sqlite")
    )


async def test_a_killed_workers_trees_are_grown_elsewhere_from_what_was_recorded(tmp_path):
    async with MockOpenAI(moody, latency=0.03) as server:
        given = asked(tmp_path, server.url)
        await Cluster(given).collect(tmp_path / "here", workers=0)
        paid = len(server.received)
        there = Cluster(given)

        def kill():
            if there.simulations == 2:
                there.start.near[0].kill()

        there.on_simulation = kill
        collected = await there.collect(tmp_path / "there")
        again = len(server.received) - 2 * paid
    assert not collected.failed
    lost, *others = there.start.near
    assert {*lost.questions} <= {question for other in others for question in other.questions}
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert 0 <= again <= 2 * given.in_flight, "only the calls that were in flight at the worker were made again"
    assert there.simulations == QUESTIONS * SIMULATIONS


async def test_a_question_that_fails_is_named_as_in_one_process(tmp_path):
    async with MockOpenAI(moody) as server:
        given = asked(tmp_path, server.url, concurrency=1, budget=Budget(calls=5))
        server.misbehave("400")
        one = await Cluster(given).collect(tmp_path / "here", workers=0)
        server.misbehave("400")
        others = await Cluster(given).collect(tmp_path / "there", workers=1)
    assert len(one.failed) == 1
    assert "the budget of 5 calls is used up" in {grown.tree.stopped for grown in one.trees}
    assert one.failed == others.failed
    assert files(tmp_path / "here") == files(tmp_path / "there")
