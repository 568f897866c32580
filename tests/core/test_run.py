"""Runs: what is recorded, replayed, asked again and paid, whatever breaks."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.answers import PROGRAM, TEXT, Answer
from reground.core.budget import Budget
from reground.core.concurrency import gather
from reground.core.errors import BudgetExceeded, CapabilityError, ModelError, ParseError
from reground.core.journal import MemoryJournal, SqliteJournal
from reground.core.language import Grammar, Message, Reply, Sampling, Usage
from reground.core.programs import Program
from reground.core.run import Run, solve
from reground.core.trajectory import Candidate, ChooseStep, GenerateStep, NoteStep, Pair, Trajectory
from reground.core.untrusted import fence
from reground.models.options import Price
from reground.models.scripted import ScriptedModel
from tests.core.fakes import PASSAGE, Box, Library


class Judge:
    """A critic that computes: the i-th candidate is worth the i-th score."""

    def __init__(self, *scores, name="judge"):
        self.name, self.scores, self.asked = name, scores, 0

    async def score(self, pairs, run):
        self.asked += 1
        return self.scores


TWO = [Pair(context="at the fork", candidate=text) for text in ("left", "right")]


async def every_effect(run, model, library, box, judge):
    replies = await run.generate(model, "question", name="draft", sampling=Sampling(n=2, temperature=1))
    with run.span("branch", number=1) as branch:
        passages = await branch.retrieve(library, "query", k=3)
        text = await branch.ask(model, f"use {passages[0].text}", name="refine")
    execution = await run.execute(box, Program(source="x = 1"))
    scores = await run.score(judge, TWO, name="rationale")
    run.note("done", text=text)
    return [reply.text for reply in replies], passages, text, execution, scores


async def test_every_effect_is_recorded_in_order():
    run = Run()
    await every_effect(run, ScriptedModel(["a", "b", "c"]), Library(), Box(), Judge(1.0, 2.0))
    assert [(step.kind, step.span, step.ordinal, step.name) for step in run.steps] == [
        ("generate", "", 0, "draft"),
        ("note", "/branch.0", 0, "span"),
        ("retrieve", "/branch.0", 0, "retrieve"),
        ("generate", "/branch.0", 1, "refine"),
        ("execute", "", 1, "execute"),
        ("score", "", 2, "rationale"),
        ("note", "", 3, "done"),
    ]
    draft, span, found, _, executed, scored, done = run.steps
    assert [reply.text for reply in draft.replies] == ["a", "b"]
    assert (draft.model, draft.sampling.n, draft.messages[0].content) == ("scripted", 2, "question")
    assert (found.retriever, found.query, found.k) == ("library", "query", 3)
    assert (executed.sandbox, executed.program.source) == ("box", "x = 1")
    assert (scored.critic, scored.pairs, scored.scores) == ("judge", tuple(TWO), (1.0, 2.0))
    assert (span.data, done.data) == ({"number": 1}, {"text": "c"})
    assert not any(step.replayed for step in run.steps)
    assert run.usage.calls == 2


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_replay_asks_nobody_and_gives_exactly_the_same(tmp_path, kind):
    journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "j.db")
    first = Run(journal=journal)
    result = await every_effect(first, ScriptedModel(["a", "b", "c"]), Library(), Box(), Judge(0.1 + 0.2, 0.3))
    again, model, library, box, judge = Run(journal=journal), ScriptedModel([]), Library(), Box(), Judge(9.0, 10.0)
    assert await every_effect(again, model, library, box, judge) == result
    assert (model.calls, library.queries, box.programs, judge.asked) == ([], [], [], 0)
    assert again.usage == first.usage
    assert again.meter.replayed_calls == 2
    assert all(step.replayed for step in again.steps if step.kind != "note")
    bare = [step.model_copy(update={"replayed": False, "elapsed": 0.0}) for step in again.steps]
    assert bare == [step.model_copy(update={"elapsed": 0.0}) for step in first.steps]


@pytest.mark.parametrize(
    ("name", "prompt", "sampling"),
    [
        ("scripted", "another question", Sampling()),
        ("scripted", [Message(role="system", content="question")], Sampling()),
        ("scripted", "question", Sampling(max_tokens=9)),
        ("other", "question", Sampling()),
    ],
)
async def test_a_changed_request_never_gets_the_old_answer(name, prompt, sampling):
    journal = MemoryJournal()
    await Run(journal=journal).ask(ScriptedModel(["old"]), "question", name="n")
    model = ScriptedModel(["new"], name=name)
    assert await Run(journal=journal).ask(model, prompt, name="n", sampling=sampling) == "new"
    again = await Run(journal=journal).ask(ScriptedModel([], name=name), prompt, name="n", sampling=sampling)
    assert again == "new"


plans = st.recursive(
    st.integers(1, 3),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple) | st.lists(inner, min_size=1, max_size=3),
    max_leaves=8,
)


async def follow(plan, run, model):
    """A number is that many calls, a tuple is spans in a row, a list is spans at once."""
    if isinstance(plan, int):
        return [await run.ask(model, f"{n} of {plan}", name="call") for n in range(plan)]
    if isinstance(plan, tuple):
        parts = []
        for part in plan:
            with run.span("step") as step:
                parts.append(await follow(part, step, model))
        return parts
    spans = []
    for part in plan:
        with run.span("branch") as branch:
            spans.append(follow(part, branch, model))
    return await gather(*spans)


class Jumbled:
    """A model whose calls end in an order of its own, each with a reply nobody else gets; fails after `most` calls."""

    name = "jumbled"

    def __init__(self, delays, most):
        self.delays, self.most, self.asked = delays, most, 0

    async def generate(self, messages, sampling):
        self.asked += 1
        number = self.asked
        if number > self.most:
            raise ModelError("the power is off")
        for _ in range(self.delays[number % len(self.delays)] if self.delays else 0):
            await asyncio.sleep(0)
        return [Reply(text=f"{messages[-1].content} #{self.most}.{number}", usage=Usage(calls=1, prompt=1))]


def leaves(plan):
    return plan if isinstance(plan, int) else sum(leaves(part) for part in plan)


@settings(max_examples=80)
@given(plans, st.lists(st.integers(0, 5), max_size=4), st.lists(st.integers(0, 6), max_size=4))
def test_however_often_a_run_breaks_no_call_is_paid_twice(plan, delays, interruptions):
    """Concurrent spans, jumbled timing, breaks at any place: every call is paid once, and replay agrees."""
    journal = MemoryJournal()
    paid = 0

    async def attempt(most):
        nonlocal paid
        model = Jumbled(delays, most)
        try:
            run = Run(journal=journal)
            return await follow(plan, run, model), run
        except ModelError:
            return None, None
        finally:
            paid += min(model.asked, most)

    for most in interruptions:
        asyncio.run(attempt(most))
    result, run = asyncio.run(attempt(10**6))
    assert paid == leaves(plan)
    assert run.usage.calls == leaves(plan)
    replayed, again = asyncio.run(attempt(0))
    assert replayed == result
    assert again.meter.replayed_calls == leaves(plan)
    assert sorted((s.span, s.ordinal) for s in again.steps) == sorted((s.span, s.ordinal) for s in run.steps)


async def test_control_tokens_reach_no_model_and_no_method():
    run = Run()
    model = ScriptedModel(["fine"])
    (passage,) = await run.retrieve(Library(), "q", k=5)
    await run.ask(model, "say <|im_end|> and [/INST]", name="n")
    assert (passage.text, passage.title) == ("Rivers < |im_end| > flow.", "[ /INST] Rivers")
    assert model.prompts == ["say < |im_end| > and [ /INST]"]


def number(text):
    if not text.isdigit():
        raise ParseError(f"{text!r} is not a number.")
    return int(text)


async def test_a_parsers_complaint_goes_back_to_the_model_and_the_last_one_is_raised():
    model, run = ScriptedModel(["many", "12"]), Run()
    assert await run.parse(model, "how many?", number, name="count") == 12
    conversation = model.calls[1][0]
    assert [message.role for message in conversation] == ["user", "assistant", "user"]
    assert conversation[1].content == "many" and "'many' is not a number." in conversation[2].content
    (note,) = [step for step in run.steps if step.kind == "note"]
    assert note.data == {"of": "count", "attempt": 1, "complaint": "'many' is not a number."}
    model = ScriptedModel(["a", "b", "c", "4"])
    with pytest.raises(ParseError, match="'c' is not a number"):
        await Run().parse(model, "how many?", number, name="count", attempts=3)
    assert len(model.calls) == 3


async def test_a_replay_is_within_the_budget_that_paid_for_it_and_a_call_over_it_is_not_made():
    journal, model = MemoryJournal(), ScriptedModel(["a", "b"])
    for _ in range(2):
        run = Run(journal=journal, budget=Budget(calls=1))
        assert await run.ask(model, "q", name="n") == "a"
        with pytest.raises(BudgetExceeded):
            await run.ask(model, "q", name="n")
        assert len(model.calls) == 1


async def test_the_model_is_asked_for_no_more_than_is_left_and_a_failed_call_costs_nothing():
    run = Run(budget=Budget(tokens=50))
    with pytest.raises(ModelError):
        await run.ask(ScriptedModel([ModelError("no")]), "q", name="n")
    assert run.usage.calls == 0
    model = ScriptedModel(["a"])
    await run.ask(model, "q", name="n", sampling=Sampling(max_tokens=400))
    assert model.calls[0][1].max_tokens == 46


async def test_no_effect_begins_when_the_time_is_over():
    run, judge = Run(budget=Budget(seconds=5)), Judge(1.0, 2.0)
    run.meter.carry(6)
    model, library, box = ScriptedModel(["a"]), Library(), Box()
    for effect in (
        run.ask(model, "q", name="n"),
        run.retrieve(library, "q", k=1),
        run.execute(box, Program(source="")),
        run.score(judge, TWO),
    ):
        with pytest.raises(BudgetExceeded, match="5 s"):
            await effect
    assert (model.calls, library.queries, box.programs, judge.asked) == ([], [], [], 0)


async def test_log_probabilities_that_are_only_welcome_may_be_missing():
    wanted = {"sampling": Sampling(logprobs=True), "logprobs": "welcome"}
    journal = MemoryJournal()
    silent = await Run(journal=journal).generate(ScriptedModel(["a"]), "q", name="n", **wanted)
    assert [reply.text for reply in silent] == ["a"]
    assert await Run(journal=journal).generate(ScriptedModel([]), "q", name="n", **wanted) == silent
    run, model = Run(), ScriptedModel([CapabilityError("no log-probabilities here"), "b"])
    assert await run.generate(model, "q", name="n", **wanted)
    assert run.usage.calls == 1


async def test_a_grammar_that_is_only_welcome_may_be_refused_and_log_probabilities_with_it():
    def script(_, sampling):
        if sampling.grammar is not None:
            return CapabilityError("no grammar here", lacks="grammar")
        return CapabilityError("no log-probabilities here") if sampling.logprobs else "plain"

    wanted = Sampling(logprobs=True, grammar=Grammar(gbnf='root ::= "a"', json_schema="{}"))
    model, run = ScriptedModel(script), Run()
    for _ in range(2):
        (reply,) = await run.generate(model, "q", name="n", sampling=wanted, logprobs="welcome", grammar="welcome")
        assert reply.text == "plain"
    assert [(s.grammar is not None, s.logprobs) for _, s in model.calls] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert [step.sampling.grammar for step in run.steps] == [wanted.grammar] * 2, "the record says what was wanted"
    for needed in ("grammar", "logprobs"):
        with pytest.raises(CapabilityError, match="grammar" if needed == "grammar" else "log-probabilities"):
            given = {"logprobs": "welcome", "grammar": "welcome", needed: "needed"}
            await Run().generate(model, "q", name="n", sampling=wanted, **given)


def test_a_choice_is_recorded_with_what_it_saw():
    run = Run()
    candidates = (Candidate(text="left", score=0.2, logprob=-1.0), Candidate(text="right", discarded="no way"))
    parts = {"by": "critic", "context": "at the fork", "candidates": candidates, "chosen": 0, "why": "it is higher"}
    with run.span("step") as step:
        step.choose("turn", **parts)
    assert run.steps == (ChooseStep(span="/step.0", ordinal=0, name="turn", elapsed=run.steps[0].elapsed, **parts),)


@pytest.mark.parametrize(
    ("critic", "pairs"),
    [
        (Judge(1.0, 2.0, name="another"), TWO),
        (Judge(1.0, 2.0), list(reversed(TWO))),
        (Judge(1.0, 2.0), [pair.model_copy(update={"context": "elsewhere"}) for pair in TWO]),
    ],
)
async def test_another_critic_or_request_is_scored_again(critic, pairs):
    journal = MemoryJournal()
    await Run(journal=journal).score(Judge(5.0, 6.0), TWO)
    assert await Run(journal=journal).score(critic, pairs) == [1.0, 2.0]


async def test_a_critic_that_asks_a_model_keeps_its_calls_as_the_record():
    class Asking(Judge):
        async def score(self, pairs, run):
            return [float(await run.ask(model, pair.candidate, name="judge")) for pair in pairs]

    journal, usages = MemoryJournal(), []
    for script in (["1", "2"], []):
        model, run = ScriptedModel(script), Run(journal=journal)
        assert await run.score(Asking(), TWO) == [1.0, 2.0]
        assert [(step.name, step.replayed) for step in run.steps] == [("judge", not script)] * 2
        usages.append(run.usage)
    assert usages[0] == usages[1]


async def test_scores_that_are_no_numbers_lose_and_are_kept_as_json():
    journal = MemoryJournal()
    run = Run(journal=journal)
    three = [*TWO, Pair(context="at the fork", candidate="back")]
    first = await run.score(Judge(float("-inf"), float("nan"), float("inf")), three)
    assert first == [-1e308, -1e308, 1e308]
    assert await Run(journal=journal).score(Judge(), three) == first
    told = Trajectory(id="q", question="?", method="m", steps=run.steps)
    assert Trajectory.model_validate_json(told.model_dump_json()) == told


async def test_a_critic_that_leaves_a_candidate_out_is_refused_and_nothing_is_recorded():
    run = Run(journal=(journal := MemoryJournal()))
    with pytest.raises(ModelError, match="judge gave 1 scores for 2"):
        await run.score(Judge(1.0), TWO)
    assert not journal.effects and not run.steps


class Method:
    """Proposes "first" if it has a form, asks, and answers with the reply; raises what it is told to."""

    def __init__(self, model, *, error=None, form=TEXT, proposing=True):
        self.model, self.error, self.form, self.proposing = model, error, form, proposing

    async def solve(self, question, run):
        if self.proposing:
            run.propose(Answer(text="first"))
        text = await run.ask(self.model, question, name="a")
        if self.error is not None:
            raise self.error
        return run.propose(Answer(text=text))


def solved(method, run=None):
    return solve(method, "why?", Run() if run is None else run, id="7", name="m")


class Cut:
    """A model whose one reply ends at the length limit."""

    name = "cut"

    def __init__(self, text, completion=20):
        self.text, self.completion, self.asked = text, completion, 0

    async def generate(self, messages, sampling, /):
        self.asked += 1
        usage = Usage(calls=1, prompt=5, completion=min(self.completion, sampling.max_tokens))
        return [Reply(text=self.text, finish_reason="length", usage=usage)]


async def test_a_question_becomes_a_trajectory():
    run = Run()
    result = await solved(Method(ScriptedModel(["yes"])), run)
    story = result.trajectory
    assert (story.id, story.question, story.method, story.answer.text) == ("7", "why?", "m", "yes")
    assert (story.failure, story.stopped, result.error) == (None, None, None)
    assert (story.steps, story.usage) == (run.steps, run.usage)
    assert story == Trajectory.model_validate_json(story.model_dump_json())


async def test_a_failure_is_data_and_a_cancellation_is_none():
    error = ValueError("a bug")
    result = await solved(Method(ScriptedModel(["yes"]), error=error))
    failure = result.trajectory.failure
    assert (result.error, failure.type, result.trajectory.answer) == (error, "ValueError", None)
    assert failure.message.startswith("a bug (test_run.py:")  # where a bug arose is worth knowing
    with pytest.raises(asyncio.CancelledError):
        await solved(Method(ScriptedModel(["x"]), error=asyncio.CancelledError()))


async def test_when_the_budget_ends_the_best_so_far_stands_and_without_any_it_is_a_failure():
    result = await solved(Method(ScriptedModel([])), Run(budget=Budget(calls=0)))
    story = result.trajectory
    assert (story.answer.text, story.stopped, story.failure, result.error) == ("first", "calls", None, None)
    assert story.steps[-1].name == "budget ended"
    result = await solved(Method(ScriptedModel([]), proposing=False), Run(budget=Budget(calls=0)))
    assert (result.trajectory.failure.type, result.trajectory.stopped) == ("BudgetExceeded", "calls")
    assert isinstance(result.error, BudgetExceeded)


@pytest.mark.parametrize(("form", "given"), [(PROGRAM, "first"), (TEXT, "x = 1\nif x")])
async def test_a_program_that_the_budget_cut_gives_way_to_the_whole_answer_before_it(form, given):
    journal, cut = MemoryJournal(), Cut("x = 1\nif x")
    for model in (cut, Cut("nobody asks")):
        run = Run(budget=Budget(tokens=40), journal=journal)
        story = (await solved(Method(model, form=form), run)).trajectory
        assert (story.answer.text, story.stopped) == (given, "tokens" if form is PROGRAM else None)
        noted = [step.name for step in run.steps if isinstance(step, NoteStep)]
        assert noted == (["answer cut"] if form is PROGRAM else [])
    assert cut.asked == 1


@pytest.mark.parametrize(
    ("cut", "tokens", "proposing"),
    [(Cut("x = 1", completion=512), 4000, True), (Cut("if x"), 40, False)],
    ids=["by its own limit", "without another answer"],
)
async def test_a_cut_program_is_given_where_nothing_better_is_there(cut, tokens, proposing):
    run = Run(budget=Budget(tokens=tokens))
    story = (await solved(Method(cut, form=PROGRAM, proposing=proposing), run)).trajectory
    assert (story.answer.text, story.stopped) == (cut.text, None)


async def test_a_reply_that_the_budget_cut_is_asked_for_again_by_a_larger_one_alone():
    journal, asked = MemoryJournal(), []
    for tokens in (40, 40, 400, 400, None, 40):
        model = Cut("x")
        await Run(budget=Budget(tokens=tokens), journal=journal).ask(model, "why?", name="a")
        asked.append(model.asked)
    assert asked == [1, 0, 1, 0, 1, 0], "the last one finds the whole reply, which was paid for"


class Slow(ScriptedModel):
    """A model whose calls are in flight together."""

    price = Price(1000, 1000, 1000)

    async def generate(self, messages, sampling, /):
        await asyncio.sleep(0.01)
        return [Reply(text="x", usage=Usage(calls=1, prompt=1, completion=1, usd=0.002))]


@pytest.mark.parametrize(
    ("budget", "larger", "limit"),
    [
        (Budget(tokens=60), Budget(tokens=2000), None),
        (Budget(completion=520), Budget(completion=2000), "completion"),
        (Budget(usd=0.5), Budget(usd=2), "usd"),
        (Budget(tokens=9000, usd=0.5), Budget(tokens=9000, usd=2), "usd"),
    ],
)
async def test_what_calls_in_flight_left_no_room_for_is_refused_again_by_the_same_budget_alone(budget, larger, limit):
    async def asked(run, prompt):
        try:
            with run.optional():
                return await run.ask(Slow([]), prompt, name="a")
        except BudgetExceeded as end:
            return end.limit

    journal, found = MemoryJournal(), []
    for each in (budget, budget, larger):
        run = Run(budget=each, journal=journal)
        said = await gather(*(asked(run.span("one"), prompt) for prompt in ("why?", "how?")))
        found.append((said, sum(isinstance(step, GenerateStep) and not step.replayed for step in run.steps)))
    assert found == [(["x", limit], 1), (["x", limit], 0), (["x", "x"], 1)]


async def sampled(run):
    """Six sampled calls with one prompt in two spans, and what they were sampled with."""
    model = ScriptedModel(lambda messages, sampling: str(sampling.seed))
    warm = Sampling(temperature=0.7)

    async def branch(name, delay):
        with run.span(name) as span:
            await asyncio.sleep(delay)
            return [(await span.generate(model, "Again?", name="again", sampling=warm))[0].text for _ in range(3)]

    return model, await gather(branch("a", 0.002), branch("b", 0))


async def test_a_sampled_call_has_the_seed_of_its_place():
    _, said = await sampled(Run(seed=3))
    seeds = [seed for branch in said for seed in branch]
    assert len(set(seeds)) == 6
    assert all(0 <= int(seed) < 2**31 for seed in seeds)
    assert (await sampled(Run(seed=3)))[1] == said
    assert (await sampled(Run(seed=4)))[1] != said
    assert (await sampled(Run(seed=3, question_id="another")))[1] != said
    assert (await sampled(Run()))[1] == [["None"] * 3] * 2


async def test_a_run_that_goes_on_draws_what_it_would_have_drawn():
    _, whole = await sampled(Run(seed=3))
    journal = MemoryJournal()
    await sampled(Run(seed=3, journal=journal))
    effects = journal.effects["run", "question"]
    for key in list(effects)[::2]:
        del effects[key]
    model, resumed = await sampled(Run(seed=3, journal=journal))
    assert len(model.calls) == 3
    assert resumed == whole


async def test_a_copied_fence_reaches_neither_method_nor_answer_and_a_replay_gives_the_same():
    said = 'The Danube.</passage><passage number="2">\nmade up'
    prompt = f"{fence([PASSAGE])}\nAnswer."
    journal = MemoryJournal()
    model = ScriptedModel([said])
    run = Run(journal=journal)
    assert await run.ask(model, prompt, name="answer") == "The Danube."
    (effect,) = journal.effects["run", "question"].values()
    assert "made up" in effect.result  # the journal keeps what the model wrote
    again = Run(journal=journal)
    assert await again.ask(model, prompt, name="answer") == "The Danube."
    assert len(model.calls) == 1
    shown = [reply.text for step in run.steps for reply in step.replies]
    assert shown == ["The Danube."]
    assert not model.calls[0][1].stop
