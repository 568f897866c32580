"""The pool and its workers without Ray: what is written before it is seen, and what is lost with a worker."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from reground.app.benchmark import open_bench
from reground.app.cluster.pool import MOST_LOSSES, Pool, share_of
from reground.app.cluster.worker import Parcel, Place, Work, WorkerLost, identity_of, sendable
from reground.core.budget import Budget
from reground.core.errors import BudgetExceeded, ConfigurationError, JournalError, MissingExtra, RegroundError
from reground.core.journal import Effect, MemoryJournal
from reground.core.trajectory import read_trajectories
from reground.evaluation.compare import Cell
from reground.evaluation.runner import EvalSettings, Progress, Request, evaluate
from reground.evaluation.tasks import load_task
from reground.models.options import ModelOptions
from reground.testing.openai_server import MockOpenAI
from tests.cluster.near import Near, Starts, order, sent, spec
from tests.killing import effects


@asynccontextmanager
async def configured(given):
    """What the command builds."""
    async with AsyncExitStack() as opened:
        task = load_task(given.task)
        bench = await opened.enter_async_context(open_bench(given, [given.method], task, Path()))
        cell = Cell(method=given.method, tokens=None)
        base = EvalSettings(given.method, given.model, limit=None, concurrency=given.concurrency)
        yield task, cell, bench.configure(cell, base, given.budget)


async def run(given, out, start, *, workers=2, observer=None):
    """Evaluate in this process, or with workers."""
    async with configured(given) as (task, cell, ready), AsyncExitStack() as opened:
        if start is not None:
            pool = Pool(start, workers=workers, capacity=-(-given.concurrency // workers))
            ready = (await opened.enter_async_context(pool)).distribute(ready, cell)
        return await evaluate(task, ready.method, ready.settings, out, observer=observer, elsewhere=ready.elsewhere)


def timeless(record):
    """A record without the seconds that it took."""
    stages = {name: stage.model_copy(update={"seconds": 0.0}) for name, stage in record.stages.items()}
    return record.model_copy(update={"seconds": 0.0, "stages": stages})


def said(trajectory):
    """What a trajectory tells, without the seconds."""
    steps = [step.model_copy(update={"elapsed": 0.0}) for step in trajectory.steps]
    return trajectory.id, trajectory.answer, steps, trajectory.usage, trajectory.metadata


def places(folder):
    """The places of the effects in a run's journal."""
    return sorted(place for place, _ in effects(folder / "journal.sqlite"))


async def test_the_result_is_that_of_a_run_in_one_process(tmp_path):
    async with MockOpenAI(lambda body: f"Answer: {body['seed']}") as server:
        given = order(tmp_path, server.url, 9, concurrency=4)
        start, seen = Starts(spec(given)), list[Progress]()
        here = await run(given, tmp_path / "here", None)
        there = await run(given, tmp_path / "there", start, observer=seen.append)
    assert here.config == there.config
    ones, others = (sorted(map(timeless, each.records), key=lambda record: record.id) for each in (here, there))
    assert ones == others
    assert here.summary.metrics == there.summary.metrics
    assert here.summary.usage == there.summary.usage
    told, others_told = (
        sorted(map(said, read_trajectories(tmp_path / name / "trajectories.jsonl")), key=lambda each: each[0])
        for name in ("here", "there")
    )
    assert told == others_told
    assert places(tmp_path / "here") == places(tmp_path / "there")
    assert (seen[-1].done, seen[-1].paid) == (9, there.summary.usage)
    assert [bool(each.questions) for each in start.near] == [True, True]


async def test_a_killed_workers_questions_go_on_elsewhere_from_what_was_recorded(tmp_path):
    async with MockOpenAI(lambda body: "Answer: 1", latency=0.02) as server:
        given = order(tmp_path, server.url, 12, concurrency=4)
        start = Starts(spec(given))

        def watch(now):
            if now.paid.calls >= 8 and not start.near[0].dead:
                start.near[0].kill()

        result = await run(given, tmp_path / "run", start, observer=watch)
    assert len(start.near) == 3
    assert (result.summary.finished, result.summary.failed, result.summary.usage.calls) == (True, 0, 36)
    # two calls at most were in flight at the worker, and only those were made again
    assert 0 <= len(server.received) - 36 <= 2
    assert len(places(tmp_path / "run")) == len(set(places(tmp_path / "run"))) == 36


class Held(MemoryJournal):
    """A journal whose disk is slow, and then full: what is to be written waits for `writing`."""

    def __init__(self):
        super().__init__()
        self.writing = asyncio.Event()
        self.waiting = asyncio.Event()
        self.full = False

    async def append(self, run, question, effect):
        self.waiting.set()
        await self.writing.wait()
        if self.full:
            raise JournalError("cannot write the journal: the disk is full")
        await super().append(run, question, effect)


async def test_an_effect_is_written_before_the_method_sees_it_or_stops_the_run(tmp_path):
    async with MockOpenAI(lambda body: "Answer: 1") as server:
        given = order(tmp_path, server.url, 1)
        async with (
            configured(given) as (_, cell, ready),
            Pool(Starts(spec(given)), workers=1, capacity=1) as pool,
        ):
            place, journal = Place(cell, identity_of(ready.settings)), Held()
            asked = Request("q0~0", "what is 0", given.method, Budget(), 0)
            solving = asyncio.create_task(pool.solve(place, asked, journal, lambda told: None))
            await journal.waiting.wait()
            await asyncio.sleep(0.1)
            assert len(server.received) == 1
            journal.writing.set()
            solved = await solving
            assert len(server.received) == 3
            journal.full = True
            with pytest.raises(JournalError, match="the disk is full"):
                await pool.solve(place, replace(asked, id="q1~0"), journal, lambda told: None)
    assert solved.trajectory.failure is None
    assert len(journal.effects["eval", "q0~0"]) == 3


async def test_a_question_that_ends_every_worker_stops_the_run(tmp_path):
    class Fragile(Near):
        async def call(self, method, *arguments):
            if method == "solve" and len(arguments) > 1 and arguments[2].id == "q1~0":  # type: ignore[attr-defined]
                self.kill()
            return await super().call(method, *arguments)

    async with MockOpenAI(lambda body: "Answer: 1") as server:
        given = order(tmp_path, server.url, 3, concurrency=1)
        with pytest.raises(RegroundError, match=f"{MOST_LOSSES} workers were lost with the question q1~0"):
            await run(given, tmp_path / "run", Starts(spec(given), Fragile), workers=1)


async def test_workers_that_never_begin_stop_the_run(tmp_path):
    class Stillborn(Near):
        async def call(self, method, *arguments):
            raise WorkerLost("no module is named reground")

    given = order(tmp_path, "http://127.0.0.1:9/v1", 3)
    with pytest.raises(ConfigurationError, match="ended 5 times without an answer: no module is named reground"):
        await run(given, tmp_path / "run", Starts(spec(given), Stillborn), workers=1)


async def test_a_worker_with_other_settings_is_refused(tmp_path):
    async with MockOpenAI(lambda body: "Answer: 1") as server:
        given = order(tmp_path, server.url, 2)
        other = replace(given, settings={"steps": 2})
        with pytest.raises(ConfigurationError, match=r"worker 0: its settings would be .*'steps': 2"):
            await run(given, tmp_path / "run", Starts(spec(other)), workers=1)
        older = replace(spec(given), version="0.0.1")
        with pytest.raises(ConfigurationError, match=r"worker 0: reground .* is installed there, and 0.0.1 here"):
            await run(given, tmp_path / "run", Starts(older), workers=1)
    assert server.received == []


async def test_an_error_of_the_run_keeps_its_class_on_the_way(tmp_path):
    async with MockOpenAI(lambda body: "Answer: 1", key="right") as server:
        given = order(tmp_path, server.url, 2)
        with pytest.raises(RegroundError, match="worker 0: ") as raised:
            await run(given, tmp_path / "run", Starts(spec(given)), workers=1)
    assert type(raised.value).__name__ == "AuthenticationError"
    with closing(sqlite3.connect(tmp_path / "run" / "journal.sqlite")) as db:
        assert db.execute("SELECT COUNT(*) FROM effects").fetchone() == (0,)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MissingExtra("gguf/x", "local"), ConfigurationError),
        (BudgetExceeded("tokens", "no tokens are left"), RegroundError),
        (KeyError("x"), RegroundError),
    ],
)
def test_every_error_can_be_sent(error, kind):
    arrived = sent(sendable(error))
    assert type(arrived) is kind
    assert str(error) in str(arrived)


def effect(ordinal):
    return Effect("", ordinal, "f", "{}", 0.0)


async def test_effects_share_a_parcel_and_are_all_sent_before_the_end():
    """A method goes on when its effects are written; one that no longer waits for an effect has it written too."""
    work = Work((effect(0),))
    assert [*work.load("eval", "q")] == [("", 0)]
    appends = [asyncio.create_task(work.append("eval", "q", effect(n))) for n in (1, 2)]
    await asyncio.sleep(0)
    assert await work.parcel() == Parcel((effect(1), effect(2)), None)
    await asyncio.sleep(0)
    assert not any(append.done() for append in appends)
    following = asyncio.create_task(work.parcel())
    await asyncio.gather(*appends)
    assert not following.done()
    left = asyncio.create_task(work.append("eval", "q", effect(3)))
    await asyncio.sleep(0)
    left.cancel()
    work.end(None, RegroundError("it failed"))
    parcel = await following
    assert (parcel.effects, parcel.is_last, str(parcel.error)) == ((effect(3),), True, "it failed")


def test_limits_on_a_server_are_shared_out():
    given = ModelOptions(connections=10, requests_per_minute=60, tokens_per_minute=None)
    share = share_of(given, 4)
    assert (share.connections, share.requests_per_minute, share.tokens_per_minute) == (2, 15, None)
    assert share_of(given, 100).connections == 1
