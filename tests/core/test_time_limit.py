"""The time budget ends what runs, and not only what would begin: the best answer so far is given, in time."""

import asyncio
import time

import pytest

from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.concurrency import gather
from reground.core.errors import BudgetExceeded
from reground.core.evidence import Passage
from reground.core.journal import MemoryJournal
from reground.core.language import Reply, Sampling, Usage
from reground.core.programs import Execution, Program, Verdict
from reground.core.run import Run, solve
from reground.core.trajectory import NoteStep, Pair
from reground.models.options import Price

FOREVER = 30.0
BUDGET = Budget(seconds=0.3, tokens=100_000)


class Slow:
    """A model, a retriever, a sandbox and a critic in one, which take for ever; the first `quick` calls do not."""

    name = "slow"
    price = Price(1.0, 1.0, 1.0)

    def __init__(self, quick=0):
        self.quick, self.cancelled = quick, 0

    async def _wait(self):
        self.quick -= 1
        if self.quick >= 0:
            return
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def generate(self, messages, sampling):
        await self._wait()
        return [Reply(text="said", usage=Usage(calls=1, prompt=7, completion=1, usd=0.5))]

    async def retrieve(self, query, *, k):
        await self._wait()
        return [Passage(id="1", text="found")]

    async def execute(self, program):
        await self._wait()
        return Execution(verdict=Verdict.PASSED)

    async def score(self, pairs, run):
        return [len(await run.ask(self, pair.candidate, name="judge")) for pair in pairs]


class Method:
    """Asks once, proposes that, and then has one effect after the other."""

    def __init__(self, slow, effects):
        self.slow, self.effects = slow, effects

    async def solve(self, question, run):
        run.propose(Answer(text=await run.ask(self.slow, question, name="draft")))
        for effect in self.effects:
            await effect(run, self.slow)
        return Answer(text="whole")


async def branches(run, slow):
    with run.span("a") as one, run.span("b") as two:
        await gather(one.ask(slow, "1", name="one"), two.retrieve(slow, "2", k=1))


EFFECTS = {
    "generate": lambda run, slow: run.generate(slow, "q", name="long", sampling=Sampling(n=2)),
    "retrieve": lambda run, slow: run.retrieve(slow, "q", k=1),
    "execute": lambda run, slow: run.execute(slow, Program(source="x")),
    "score": lambda run, slow: run.score(slow, [Pair(context="c", candidate="d")]),
    "branches": branches,
}


@pytest.mark.parametrize("kind", EFFECTS)
async def test_what_runs_when_the_time_is_over_is_ended(kind):
    slow = Slow(quick=1)
    run = Run(budget=BUDGET)
    began = time.monotonic()
    found = await solve(Method(slow, [EFFECTS[kind]]), "why", run, id="1", name="m")
    assert time.monotonic() - began < FOREVER / 2
    assert found.error is None
    assert (found.trajectory.stopped, found.trajectory.answer.text) == ("seconds", "said")
    assert slow.cancelled == (2 if kind == "branches" else 1)
    (note,) = [step for step in found.trajectory.steps if isinstance(step, NoteStep) and step.name == "budget ended"]
    assert note.data["limit"] == "seconds"
    assert "0.3 s" in note.data["why"]


async def test_a_call_that_is_ended_is_counted_with_its_prompt_and_its_room_is_given_back():
    run = Run(budget=BUDGET)
    with pytest.raises(BudgetExceeded, match="the time budget"):
        await run.ask(Slow(), "x" * 35, name="long")
    assert (run.usage.calls, run.usage.prompt, run.usage.completion) == (1, 14, 0)
    assert run.usage.usd == pytest.approx(14e-6)
    assert run.meter.remaining_tokens() == 100_000 - 14


async def test_what_had_ended_before_is_recorded_and_not_asked_again():
    journal = MemoryJournal()
    for slow, budget in ((Slow(quick=2), BUDGET), (Slow(quick=1), None)):
        run = Run(journal=journal, budget=budget)
        again = await solve(Method(slow, [EFFECTS["retrieve"]] * 2), "why", run, id="1", name="m")
    assert (again.error, slow.quick) == (None, 0)


async def test_ctrl_c_is_no_end_of_a_budget():
    task = asyncio.create_task(Run(budget=BUDGET).retrieve(Slow(), "q", k=1))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
