"""A call that a thought has left no room for is asked once more; what a model needs is learnt."""

import asyncio
import gc
from collections.abc import Callable, Sequence

import pytest

from reground.core.budget import Budget
from reground.core.errors import ContextLengthExceeded, TransientModelError
from reground.core.journal import MemoryJournal
from reground.core.language import LanguageModel, Message, Reply, Sampling, TokenLogprob
from reground.core.reasoning import FIRST, MOST, room_of
from reground.core.run import Run
from reground.core.trajectory import GenerateStep, NoteStep
from reground.models.scripted import ScriptedModel

SHORT = Sampling(max_tokens=10)
Fails = Callable[[Sampling], Exception | None]


class Thinker(ScriptedModel):
    """A model that thinks this many words before its short text. A word is a token.

    thoughts: the length of the thought of each reply, the last one again and again. hidden: the server shows none.
    """

    def __init__(
        self, *thoughts: int, text: str = "So it is.", hidden: bool = False, fails: Fails = lambda sampling: None
    ) -> None:
        super().__init__(self._said, name="thinker")
        self.thoughts, self.text, self.hidden, self.fails = list(thoughts or (100,)), text, hidden, fails

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        replies = await super().generate(messages, sampling)
        said = [{"text": reply.text.partition("</think>")[2].strip()} if self.hidden else {} for reply in replies]
        return [reply.model_copy(update=update) for reply, update in zip(replies, said, strict=True)]

    def _said(self, messages: Sequence[Message], sampling: Sampling) -> Reply | Exception:
        if error := self.fails(sampling):
            return error
        thought = self.thoughts.pop(0) if len(self.thoughts) > 1 else self.thoughts[0]
        words = [*(["<think>", *["hm "] * (thought - 2), "</think>"] if thought else []), *self.text.split(" ")]
        tokens = tuple(TokenLogprob(token=word if "think" in word else f"{word} ", logprob=-1.0) for word in words)
        given = tokens[: sampling.max_tokens]
        return Reply(
            text="".join(token.token for token in given).rstrip(),
            finish_reason="length" if len(given) < len(tokens) else "stop",
            token_logprobs=given if sampling.logprobs else None,
        )

    @property
    def limits(self) -> list[int]:
        return [sampling.max_tokens for _, sampling in self.calls]

    @property
    def seeds(self) -> list[int | None]:
        return [sampling.seed for _, sampling in self.calls]


async def ask(run: Run, model: LanguageModel, sampling: Sampling = SHORT) -> list[str]:
    return [reply.text for reply in await run.generate(model, "Why?", name="ask", sampling=sampling)]


def noted(run: Run) -> list[dict[str, object]]:
    return [dict(s.data) for s in run.steps if isinstance(s, NoteStep) and s.name == "thought needs room"]


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_reply_that_is_all_thought_is_asked_once_more_and_the_model_is_learnt(hidden: bool) -> None:
    model, run = Thinker(hidden=hidden), Run()
    assert [await ask(run, model) for _ in range(3)] == [["So it is."]] * 3
    assert model.limits[:2] == [10, 10 + FIRST]
    assert len(model.calls) == 4
    assert all(103 <= limit <= 10 + FIRST for limit in model.limits[2:])
    assert noted(run) == [{"model": "thinker", "from": 10, "to": 10 + FIRST}]
    assert run.usage.calls == 4
    assert await ask(Run(), model) == ["So it is."], "another question of the same process"
    assert len(model.calls) == 5


async def test_a_text_that_a_thought_left_too_little_is_asked_for_again_and_a_long_one_is_not() -> None:
    short = Thinker(9)
    assert await ask(Run(), short) == ["So it is."]
    assert len(short.calls) == 2
    long = Thinker(2, text="so it goes on and on " * 50)
    (cut,) = await ask(Run(), long, Sampling(max_tokens=60))
    assert len(long.calls) == 1, cut


async def test_thoughts_that_grow_get_more_room_up_to_a_bound() -> None:
    model, run = Thinker(100, 5000, 5000, 9000, 9000, 10**6), Run()
    assert await ask(run, model) == [""], "5000 do not fit, and nothing is asked twice"
    assert await ask(run, model) == ["So it is."]
    assert await ask(run, model) == ["So it is."]
    for _ in range(4):
        await ask(run, model)
    assert max(model.limits) == 10 + MOST
    before = len(model.calls)
    assert await ask(run, model) == [""]
    assert len(model.calls) == before + 1


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_replay_calls_no_model_and_a_killed_run_pays_nothing_twice(hidden: bool) -> None:
    journal, model = MemoryJournal(), Thinker(hidden=hidden)
    run = Run(journal=journal, seed=3)
    warm = SHORT.model_copy(update={"temperature": 1.0})
    said = [await ask(run, model, warm) for _ in range(3)]
    again = Run(journal=journal, seed=3)
    other = Thinker(hidden=hidden)
    assert [await ask(again, other, warm) for _ in range(3)] == said
    assert other.calls == []
    assert again.usage == run.usage
    assert [step.model_copy(update={"elapsed": 0.0, "replayed": False}) for step in again.steps] == [
        step.model_copy(update={"elapsed": 0.0}) for step in run.steps
    ]
    recorded = list(journal.effects["run", "question"].items())
    assert len(recorded) == 4
    for survived in range(4):
        cut, rest = MemoryJournal(), Thinker(hidden=hidden)
        cut.effects["run", "question"] = dict(recorded[:survived])
        resumed = Run(journal=cut, seed=3)
        assert [await ask(resumed, rest, warm) for _ in range(3)] == said
        assert rest.seeds == model.seeds[survived:]
    assert model.seeds[0] == model.seeds[1]
    assert len(set(model.seeds)) == 3


@pytest.mark.parametrize("budget", [Budget(calls=1), Budget(tokens=30), Budget(completion=20)])
async def test_a_budget_without_room_for_the_second_call_keeps_the_first_reply_and_a_larger_one_asks(
    budget: Budget,
) -> None:
    journal, model = MemoryJournal(), Thinker()
    for _ in range(2):
        run = Run(budget=budget, journal=journal)
        (reply,) = await run.generate(model, "Why?", name="ask", sampling=SHORT)
        assert (reply.text, bool(reply.reasoning)) == ("", True)
    assert len(model.calls) == 1
    assert await ask(Run(journal=journal), model) == ["So it is."]
    assert len(model.calls) == 2, "the first reply was paid for"


async def test_what_a_later_call_needs_is_kept_with_room_for_its_thought() -> None:
    model, run = Thinker(), Run(budget=Budget(tokens=3000))
    await ask(run, model, Sampling(max_tokens=500))
    await ask(run, model)
    before = run.meter.remaining_tokens()
    with run.keeping(lambda: "And so?", reply=20):
        held = (before or 0) - (run.meter.remaining_tokens() or 0)
    assert held > 20 + 100


async def test_of_several_samples_those_with_a_text_are_given_and_all_are_asked_again_where_none_has_any() -> None:
    several = SHORT.model_copy(update={"n": 3, "temperature": 1.0})
    model = Thinker(100, 0, 100, 0)
    run = Run()
    assert await ask(run, model, several) == ["So it is."]
    assert len(model.calls) == 1
    (step,) = [step for step in run.steps if isinstance(step, GenerateStep)]
    assert len(step.replies) == 3
    model = Thinker()
    assert await ask(Run(), model, several) == ["So it is."] * 3
    assert [sampling.n for _, sampling in model.calls] == [3, 3]


async def test_a_thought_that_a_stop_string_ended_is_asked_for_without_and_the_text_still_ends_at_it() -> None:
    def said(messages: Sequence[Message], sampling: Sampling) -> str:  # as a server that stops in the thought too
        text = "<think>\nStep one.\nStep two.\n</think>\nObservation or not.\nStep three."
        return text[: min((text.find(stop) for stop in sampling.stop), default=len(text))]

    model = ScriptedModel(said)
    sampling = Sampling(max_tokens=500, stop=("\nStep",))
    (reply,) = await Run().generate(model, "Why?", name="ask", sampling=sampling)
    assert (reply.text, reply.finish_reason) == ("Observation or not.", "stop")
    assert [sampling.stop for _, sampling in model.calls] == [("\nStep",), ()]


async def test_a_thought_whose_opening_stands_in_the_prompt_is_known_where_the_model_has_thought_before() -> None:
    class Open(Thinker):
        def _said(self, messages: Sequence[Message], sampling: Sampling) -> Reply | Exception:
            reply = super()._said(messages, sampling)
            assert isinstance(reply, Reply)
            return reply.model_copy(update={"text": reply.text.removeprefix("<think>")})

    model, run = Open(100, 1000), Run()
    assert await ask(run, model, Sampling(max_tokens=500)) == ["So it is."]
    assert await ask(run, model) == ["So it is."]
    assert len(model.calls) == 3


@pytest.mark.parametrize("most", [3000, 300, 5])
async def test_a_context_too_small_for_the_room_gets_less_of_it(most: int) -> None:
    def refuse(sampling: Sampling) -> Exception | None:
        return ContextLengthExceeded("too long") if sampling.max_tokens > 10 + most else None

    model, run = Thinker(fails=refuse), Run()
    assert await ask(run, model) == ([""] if most == 5 else ["So it is."])
    assert run.usage.calls == 2
    calls = len(model.calls)
    assert await ask(run, model) == ([""] if most == 5 else ["So it is."])
    assert len(model.calls) > calls


async def test_a_second_call_that_fails_for_now_is_made_again_by_the_next_attempt() -> None:
    journal, failed = MemoryJournal(), []

    def fail_once(sampling: Sampling) -> Exception | None:
        if sampling.max_tokens > 10 and not failed:
            failed.append(sampling)
            return TransientModelError("busy")
        return None

    model = Thinker(fails=fail_once)
    with pytest.raises(TransientModelError):
        await ask(Run(journal=journal), model)
    assert await ask(Run(journal=journal), model) == ["So it is."]
    assert len(model.calls) == 3


def test_what_was_learnt_goes_with_the_model() -> None:
    async def teach() -> int:
        model = Thinker()
        await ask(Run(), model)
        return room_of(model)

    assert asyncio.run(teach()) >= 100
    gc.collect()
    assert not any(room_of(other) for other in [Thinker() for _ in range(50)]), "though one may have its id"
