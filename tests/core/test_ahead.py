"""Calls made before their turn: one call for one request at one place, whoever makes it."""

from __future__ import annotations

import asyncio

import pytest

from reground.core.ahead import Guessing
from reground.core.budget import Budget
from reground.core.errors import BudgetExceeded
from reground.core.guesses import GuessEnded
from reground.core.journal import MemoryJournal
from reground.core.language import Message, Sampling
from reground.core.run import Run
from reground.models.scripted import ScriptedModel
from tests.methods.waves import Slow


def echo() -> Slow:
    return Slow(lambda messages, sampling: f"{messages[-1].content}! {sampling.seed}")


async def test_the_method_gets_the_guess_of_its_own_request_and_makes_any_other_call_itself():
    model, run = echo(), Run()
    async with Guessing(run, on=True) as guessing:
        guess = guessing.restart([])
        twin = guess.run.span("step")
        guess.begin(twin.ask(model, "one", name="ask"))
        guess.begin(guess.run.span("step").ask(model, "two", name="ask"))
        first = await run.span("step", step=1).ask(model, "one", name="ask")
        second = await run.span("step", step=2).ask(model, "other", name="ask")
    assert (first, second) == ("one! None", "other! None")
    assert sorted(model.prompts) == ["one", "other", "two"]
    assert [step.span for step in run.steps if step.kind == "generate"] == ["/step.0", "/step.1"]
    assert run.usage.calls == 3


async def test_a_guess_draws_the_sample_that_the_method_would_have_drawn():
    sampling = Sampling(temperature=1.0)
    said = []
    for on in (False, True):
        run, model = Run(seed=3), echo()
        async with Guessing(run, on=on) as guessing:
            if guess := guessing.restart([]):
                await guess.begin(guess.run.span("step").ask(model, "one", name="ask", sampling=sampling))
            said.append(await run.span("step").ask(model, "one", name="ask", sampling=sampling))
        assert len(model.calls) == 1
    assert said[0] == said[1] != "one! None"


async def test_a_guess_of_a_call_that_the_method_has_begun_waits_for_it():
    run, model = Run(), echo()
    async with Guessing(run, on=True) as guessing:
        guess = guessing.restart([])
        twin = guess.of(run)
        asked = asyncio.create_task(run.ask(model, "one", name="ask"))
        await asyncio.sleep(0)
        assert await guess.begin(twin.ask(model, "one", name="ask")) == await asked
    assert len(model.calls) == 1
    assert not [step for step in run.steps if step.name.startswith("guess")]


async def test_a_guess_of_a_place_where_the_method_asks_something_else_ends():
    run, model = Run(), echo()
    async with Guessing(run, on=True) as guessing:
        guess = guessing.restart([])
        twin = guess.of(run)
        await run.ask(model, "one", name="ask")
        with pytest.raises(GuessEnded):
            await guess.begin(twin.ask(model, "two", name="ask"))
    assert model.prompts == ["one"]


async def test_off_it_makes_no_guess_and_no_table():
    run = Run()
    async with Guessing(run, on=False) as guessing:
        assert guessing.restart([]) is None
        assert run._shared.guesses is None


async def test_an_interrupted_method_leaves_no_call_in_flight():
    model, run = Slow(lambda messages, sampling: "late", lambda prompt: 10**6), Run()

    async def method() -> None:
        async with Guessing(run, on=True) as guessing:
            guess = guessing.restart([])
            guess.begin(guess.run.span("step").ask(model, "two", name="ask"))
            await run.ask(model, "one", name="ask")

    working = asyncio.create_task(method())
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(model.calls) == 2
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not model.waves.waiting
    for _ in range(300):  # the model's own task ends, because nothing waits for it
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_when_the_time_is_over_the_method_is_told_and_its_guesses_end():
    model, run = Slow(lambda messages, sampling: "late", lambda prompt: 10**6), Run(budget=Budget(seconds=0.05))
    with pytest.raises(BudgetExceeded, match="time"):
        async with Guessing(run, on=True) as guessing:
            guess = guessing.restart([])
            guess.begin(guess.run.span("step").ask(model, "one", name="ask"))
            await run.span("step").ask(model, "one", name="ask")
    assert not model.waves.waiting
    assert len(model.calls) == 1


async def test_what_the_method_holds_back_is_held_once_and_not_by_its_guesses():
    run, model = Run(budget=Budget(calls=3)), echo()
    async with Guessing(run, on=True) as guessing:
        guess = guessing.restart([(10, 10)])
        twin = guess.run.span("step")
        with twin.keeping(lambda: "later", reply=5), twin.optional():
            assert await twin.ask(model, "one", name="ask") == "one! None"
            assert await run.span("step").ask(model, "one", name="ask") == "one! None"
            assert await run.span("step").ask(model, "two", name="ask") == "two! None"
            assert await run.span("step").ask(model, "three", name="ask") == "three! None"


async def test_a_table_reads_a_journal_and_names_the_places_of_its_guesses():
    journal = MemoryJournal()
    for _ in range(2):
        model, run = ScriptedModel(["one", "two"]), Run(journal=journal)
        async with Guessing(run, on=True) as guessing:
            guess = guessing.restart([])
            await guess.begin(guess.run.span("step").ask(model, (Message(role="user", content="?"),), name="ask"))
        assert run.usage.calls == 1
        assert [step.data for step in run.steps] == [{"of": "ask", "at": "/step.0", "tokens": 2}]
    assert model.calls == []
    assert list(journal.effects["run", "question"]) == [("/ahead.0/step.0", 0)]
