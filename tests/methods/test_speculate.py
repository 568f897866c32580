"""Calls made before their turn change the time and the cost, and nothing else."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.budget import Budget
from reground.core.errors import ModelError
from reground.core.journal import MemoryJournal
from reground.core.run import Run
from reground.core.solve import solve
from reground.evaluation.scaling import cost
from tests.methods.helpers import notes
from tests.methods.waves import METHODS, QUESTION, Changes, Slow, claim, made, script, thrown, told

changes = st.dictionaries(st.integers(0, 4), st.sets(st.integers(0, 4), min_size=1), max_size=5)
names = st.sampled_from(sorted(METHODS))
COUNT = 4


def slow(count: int, changes: Changes, mixed: int | None = None) -> Slow:
    """mixed: calls take one to three waves, drawn by their prompts and this number."""
    if mixed is None:
        return Slow(script(count, changes))
    return Slow(script(count, changes), lambda prompt: 1 + zlib.crc32(f"{mixed}{prompt}".encode()) % 3)


async def answered(name, model, *, speculate, budget=None, journal=None, seed=None, **given_settings):
    run = Run(budget=budget, journal=journal, seed=seed)
    method = made(name, model, speculate=speculate, **given_settings)
    solved = await solve(method, QUESTION, run, id="q", name=name)
    return solved.trajectory, run


@given(names, st.integers(1, 5), changes, st.integers(0, 99), st.sampled_from([0.0, 0.8]))
@settings(max_examples=30, deadline=None)
async def test_whatever_changes_the_method_asks_and_says_the_same(name, count, changes, mixed, temperature):
    given = {"seed": 7, "temperature": temperature}
    plain, plainly = await answered(name, slow(count, changes, mixed), speculate=False, **given)
    early, run = await answered(name, slow(count, changes, mixed), speculate=True, **given)
    assert early.answer == plain.answer
    assert told(run) == told(plainly)
    assert early.usage.calls >= plain.usage.calls + thrown(run).calls


# waves of calls: a draft, then two calls a step, and the answer where there is a final pass
@pytest.mark.parametrize(
    ("name", "plain", "early"),
    [
        ("rat", 1 + 2 * COUNT, 3),
        ("rat, each passage", 1 + 3 * COUNT, 4),
        ("rat, final pass", 1 + 2 * COUNT + 1, 4),
        ("rar", 2 + 2 * COUNT + 3, 4 + 3),
        ("rar, sequential", 1 + 3 * COUNT, 4),
        ("ircot", COUNT + 2, 4),
    ],
)
async def test_where_nothing_changes_all_steps_take_the_time_of_one_and_cost_nothing_more(name, plain, early):
    usages = []
    for speculate, waves in ((False, plain), (True, early)):
        model = slow(COUNT, {})
        trajectory, run = await answered(name, model, speculate=speculate)
        assert model.waves.count == waves
        assert thrown(run).calls == 0
        assert not model.waves.waiting
        usages.append(trajectory.usage)
    assert usages[0] == usages[1]
    assert len(notes(run, "guess used")) > 0


@pytest.mark.parametrize("name", ["rat", "rar, sequential"])
@pytest.mark.parametrize("which", [[0], [1], [2], [3], [0, 2], [0, 1, 2, 3]])
async def test_a_step_that_changes_costs_one_more_round_and_the_guesses_after_it(name, which):
    calls = {"rat": 2, "rar, sequential": 3}[name]  # of the model, a step
    changed = {i: {i} for i in which}
    plain, _ = await answered(name, slow(COUNT, changed), speculate=False)
    model = slow(COUNT, changed)
    early, run = await answered(name, model, speculate=True)
    wrong = calls * sum(COUNT - 1 - i for i in which)
    assert thrown(run).calls == wrong
    assert early.usage.calls == plain.usage.calls + wrong
    assert early.usage.tokens - plain.usage.tokens == thrown(run).prompt
    assert model.waves.count == 1 + calls * (1 + sum(i < COUNT - 1 for i in which))


async def test_a_sentence_that_ircot_did_not_expect_costs_the_guesses_after_it():
    model = slow(6, {2: {2}})
    plain, _ = await answered("ircot", slow(6, {2: {2}}), speculate=False)
    early, run = await answered("ircot", model, speculate=True)
    assert early.usage.calls == plain.usage.calls + thrown(run).calls
    assert thrown(run).calls > 0
    assert model.waves.count < plain.usage.calls
    assert [step.text for step in early.answer.steps][2] == claim(2, 2)


async def test_a_model_that_writes_one_sentence_leaves_ircot_nothing_to_guess():
    model = Slow(lambda messages, sampling: script(4, {})(messages, sampling).partition(". ")[0] + ".")
    early, run = await answered("ircot", model, speculate=True)
    assert not [step for step in run.steps if step.name.startswith("guess")]
    assert early.usage.calls == model.waves.count


@given(names, changes, st.integers(0, 60))
@settings(max_examples=20, deadline=None)
async def test_a_limit_of_calls_gives_the_answer_that_it_gives_without(name, changes, calls):
    plain, plainly = await answered(name, slow(COUNT, changes), speculate=False, budget=Budget(calls=calls))
    early, run = await answered(name, slow(COUNT, changes), speculate=True, budget=Budget(calls=calls))
    assert told(run) == told(plainly)
    assert (early.answer, early.stopped) == (plain.answer, plain.stopped)
    assert early.usage.calls <= calls


@given(
    names,
    changes,
    st.sampled_from(["tokens", "completion"]),
    st.integers(1, 40).map(lambda n: 100 * n) | st.integers(4, 60).map(lambda n: 1000 * n),
)
@settings(max_examples=40, deadline=None)
async def test_a_limit_of_tokens_gives_the_answer_that_it_gives_without(name, changes, limit, tokens):
    short = {"max_tokens": 64, "passage_tokens": 100}
    budget = Budget(**{limit: tokens})
    plain, plainly = await answered(name, slow(COUNT, changes), speculate=False, budget=budget, **short)
    early, run = await answered(name, slow(COUNT, changes), speculate=True, budget=budget, **short)
    assert told(run) == told(plainly)
    assert (early.answer, early.stopped) == (plain.answer, plain.stopped)
    assert early.usage.tokens <= tokens or limit == "completion"


@pytest.mark.parametrize("name", METHODS)
async def test_a_limit_that_the_method_just_fits_makes_no_guess_and_one_with_room_does(name):
    plain, _ = await answered(name, slow(COUNT, {}), speculate=False)
    tight, run = await answered(name, slow(COUNT, {}), speculate=True, budget=Budget(calls=plain.usage.calls))
    assert tight.answer == plain.answer
    assert not calls_guessed(run)
    _, run = await answered(name, slow(COUNT, {}), speculate=True, budget=Budget(calls=100, tokens=10**6))
    assert calls_guessed(run)
    _, run = await answered(name, slow(COUNT, {}), speculate=True, budget=Budget(usd=100.0))
    assert not calls_guessed(run)


def calls_guessed(run):
    """A search costs no tokens, so no limit refuses its guess."""
    return [note for note in run.steps if note.name.startswith("guess") and note.data["of"] != "retrieve"]


@given(names, changes, st.integers(0, 99), st.floats(0, 1))
@settings(max_examples=20, deadline=None)
async def test_whatever_was_in_flight_when_it_was_killed_the_answer_is_the_same(name, changes, mixed, part):
    journal, cut = MemoryJournal(), MemoryJournal()
    whole, run = await answered(name, slow(COUNT, changes, mixed), speculate=True, journal=journal)
    recorded = list(journal.effects["run", "question"].items())
    cut.effects["run", "question"] = dict(recorded[: int(part * len(recorded))])
    again, resumed = await answered(name, slow(COUNT, changes, mixed + 1), speculate=True, journal=cut)
    assert again.answer == whole.answer
    assert told_anyhow(resumed) == told_anyhow(run)
    complete, _ = await answered(name, slow(COUNT, changes), speculate=True, journal=journal)
    assert (complete.answer, complete.usage) == (whole.answer, whole.usage)


@pytest.mark.parametrize("changed", [{}, {1: {1}}, {0: {0}, 2: {0, 2}}])
@pytest.mark.parametrize("name", METHODS)
async def test_wherever_it_was_killed_it_goes_on_to_the_same_answer(name, changed):
    journal, model = MemoryJournal(), slow(COUNT, changed)
    whole, run = await answered(name, model, speculate=True, journal=journal)
    recorded = journal.effects["run", "question"]
    for survived in range(len(recorded) + 1):
        cut, rest = MemoryJournal(), slow(COUNT, changed)
        cut.effects["run", "question"] = dict(list(recorded.items())[:survived])
        again, resumed = await answered(name, rest, speculate=True, journal=cut)
        assert again.answer == whole.answer
        assert told_anyhow(resumed) == told_anyhow(run)
        assert len(rest.calls) + resumed.meter.replayed_calls == requests(cut), "no recorded call is paid twice"
    assert rest.calls == []
    assert again.usage == whole.usage
    assert sorted(map(guessing, again.steps)) == sorted(map(guessing, whole.steps))


def requests(journal):
    """How many different calls of the model the journal holds, whether the method made them or a guess."""
    effects = [each for each in journal.effects["run", "question"].values() if '"finish_reason"' in each.result]
    return len({(re.sub(r"/ahead\.\d+", "", each.span), each.ordinal, each.fingerprint) for each in effects})


def told_anyhow(run):
    return sorted(repr(each).replace("replayed=True", "replayed=False") for each in told(run))


def guessing(step):
    return (step.name, step.span, str(step.data)) if step.name.startswith("guess") else ("", "", "")


@pytest.mark.parametrize("name", METHODS)
async def test_a_switch_thrown_between_two_attempts_changes_nothing(name):
    for first, second in ((True, False), (False, True)):
        journal, rest = MemoryJournal(), slow(COUNT, {1: {1}})
        before, _ = await answered(name, slow(COUNT, {1: {1}}), speculate=first, journal=journal)
        after, _ = await answered(name, rest, speculate=second, journal=journal)
        assert after.answer == before.answer
        assert rest.calls == []


@pytest.mark.parametrize("name", [name for name in METHODS if name != "rar"])  # its own queries are made at once too
async def test_guesses_that_fail_are_nobodys_errors(name):
    plain, plainly = await answered(name, slow(COUNT, {1: {1}}), speculate=False)
    asked = set()

    def fails_first(messages, sampling):
        """Every call but the first fails when it is made for the first time, if the method did not wait for it."""
        prompt = messages[-1].content
        first = prompt not in asked
        asked.add(prompt)
        if first and model.waves.count and model.waves.waiting:
            return ModelError("the server is on fire")
        return script(COUNT, {1: {1}})(messages, sampling)

    model = Slow(fails_first)
    early, run = await answered(name, model, speculate=True)
    assert early.failure is None
    assert early.answer == plain.answer
    assert told(run) == told(plainly)


@pytest.mark.parametrize("name", ["rat", "rar", "rar, sequential"])
async def test_a_guess_in_flight_ends_where_the_method_asks_something_else_and_is_recorded_with_its_prompt(name):
    late = claim(COUNT - 1)

    def model():
        return Slow(script(COUNT, {0: {0}}), lambda prompt: 5 if late in prompt and "<passage" in prompt else 1)

    journal, slowly, soon = MemoryJournal(), model(), model()
    plain, _ = await answered(name, slowly, speculate=False)
    early, run = await answered(name, soon, speculate=True, journal=journal)
    assert early.answer == plain.answer
    assert early.usage.calls == plain.usage.calls + thrown(run).calls
    assert soon.waves.count < slowly.waves.count, "nobody waited for what was ended"
    ended = [each for each in journal.effects["run", "question"].values() if '"ended"' in each.result]
    assert ended
    again, _ = await answered(name, slow(COUNT, {}), speculate=True, journal=journal)
    assert (again.answer, again.usage) == (early.answer, early.usage)


async def test_a_wrong_guess_leaves_nothing_in_the_answer_or_the_prompts_of_the_method():
    _, run = await answered("rat, final pass", slow(COUNT, {0: {0}}), speculate=True)
    asked = [step for step in run.steps if step.kind == "generate"]
    assert notes(run, "guess thrown away")
    assert not any(claim(0) in step.messages[-1].content for step in asked if step.span not in {"", "/step.0"})
    assert all(step.span.startswith("/step.") or not step.span for step in run.steps)


async def test_the_notes_say_in_plain_words_what_became_of_the_guesses():
    _, run = await answered("rat", slow(3, {1: {1}}), speculate=True)
    used = [(note.span, note.data["of"]) for note in notes(run, "guess used")]
    assert used == [*(("/step.1", of) for of in ("query", "retrieve", "revise")), ("/step.2", "retrieve")]
    wrong = [(note.data["at"], note.data["of"]) for note in notes(run, "guess thrown away")]
    assert wrong == [("/step.2", "query"), ("/step.2", "revise")], "the second query was the same"
    assert all(int(note.data["tokens"]) > 0 for note in notes(run, "guess thrown away"))


@pytest.mark.parametrize("name", METHODS)
def test_a_dry_run_costs_the_same_so_the_switch_changes_no_size(name):
    costs = [cost(made(name, Slow(script(COUNT, {})), speculate=speculate)) for speculate in (False, True)]
    assert costs[0] == costs[1]
