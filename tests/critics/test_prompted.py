"""A language model as the critic: what it is asked, and what its replies are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import CapabilityError
from reground.core.language import Message, Reply, Sampling, TokenLogprob
from reground.core.run import Run
from reground.core.trajectory import NoteStep, Pair
from reground.critics.prompted import PromptedCritic, Prompts, read_number, read_verdict
from reground.models.scripted import ScriptedModel

PAIRS = [Pair(context="The question is how long.", candidate=text) for text in ("measure it", "guess", "ask")]


def reply(*tokens: tuple[str, float]) -> Reply:
    """A reply with its tokens and their probabilities."""
    return Reply(
        text="".join(token for token, _ in tokens).strip(),
        token_logprobs=tuple(TokenLogprob(token=token, logprob=math.log(p)) for token, p in tokens),
    )


def critic(model: ScriptedModel, **settings: object) -> PromptedCritic:
    return PromptedCritic(kind="rationale", model=model, **settings)  # type: ignore[arg-type]


def notes(run: Run) -> list[NoteStep]:
    return [step for step in run.steps if isinstance(step, NoteStep) and step.name == "no verdict"]


async def test_pointwise_asks_about_each_candidate_and_scores_by_the_models_certainty() -> None:
    model = ScriptedModel([reply((" Yes", 0.9)), reply(("No", 0.8), (".", 1.0)), reply(("yes", 0.6))])
    run = Run()
    assert await critic(model).score(PAIRS, run) == pytest.approx([0.95, 0.1, 0.8])
    assert len(model.calls) == 3
    for prompt, pair in zip(model.prompts, PAIRS, strict=True):
        assert prompt.index(pair.context) < prompt.index(pair.candidate) < prompt.index("yes or no")
        assert "the next step of the reasoning" in prompt
    assert all(sampling.max_tokens <= 8 and sampling.temperature == 0 for _, sampling in model.calls)
    assert [step.span for step in run.steps] == ["/verdict.0", "/verdict.1", "/verdict.2"]
    assert not notes(run)


async def test_a_reply_without_a_verdict_is_neutral_and_noted() -> None:
    run = Run()
    model = ScriptedModel(["yes", "I would say that", ""])
    assert await critic(model).score(PAIRS, run) == [1.0, 0.5, 0.5]
    assert [note.data["reply"] for note in notes(run)] == ["I would say that", ""]


async def test_rank_asks_once_and_gives_the_best_its_probability() -> None:
    model = ScriptedModel([reply(("2", 0.7))])
    assert await critic(model, style="rank").score(PAIRS, Run()) == pytest.approx([0.0, 0.7, 0.0])
    (prompt,) = model.prompts
    assert prompt.index("1. measure it") < prompt.index("2. guess") < prompt.index("3. ask")


async def test_rank_asks_once_for_each_context_and_keeps_the_places() -> None:
    model = ScriptedModel(lambda messages, sampling: "2" if "of one" in messages[-1].content else "1")
    pairs = [
        Pair(context=context, candidate=candidate)
        for context, candidate in (("of one", "a"), ("of two", "b"), ("of one", "c"), ("of two", "d"))
    ]
    assert await critic(model, style="rank").score(pairs, Run()) == [0.0, 1.0, 1.0, 0.0]
    assert len(model.calls) == 2


@pytest.mark.parametrize("said", ["", "none", "0", "4", "99999999999999999999", "-"])
async def test_a_rank_that_names_no_candidate_leaves_all_equal(said: str) -> None:
    run = Run()
    assert await critic(ScriptedModel([said]), style="rank").score(PAIRS, run) == [0.5, 0.5, 0.5]
    assert len(notes(run)) == 1


async def test_without_log_probabilities_the_word_counts() -> None:
    class Plain(ScriptedModel):
        async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
            if sampling.logprobs:
                raise CapabilityError("none here")
            return await super().generate(messages, sampling)

    assert await critic(Plain(["No", "Yes", "no"])).score(PAIRS, Run()) == [0.0, 1.0, 0.0]


def test_other_words_are_another_name() -> None:
    usual = critic(ScriptedModel([])).name
    assert usual == "prompted:pointwise scripted"
    other = critic(ScriptedModel([]), prompts=Prompts(rank="{job} {context} {proposals} Which?"))
    third = critic(ScriptedModel([]), jobs={"rationale": "Judge."})
    assert len({usual, other.name, third.name}) == 3
    assert other.name == critic(ScriptedModel([]), prompts=other.prompts).name


def test_a_verdict_in_several_tokens_takes_them_all_and_no_others() -> None:
    assert read_verdict(reply(("Answer", 0.1), (": ", 0.5), ("Y", 0.5), ("es", 0.5), (".", 0.1))) == pytest.approx(
        0.625
    )
    assert read_number(reply(("Number ", 0.1), ("1", 0.5), ("2", 0.5)), 12) == (11, pytest.approx(0.25))


@pytest.mark.parametrize("unknown", [math.nan, -math.inf, -9999.0])
def test_a_probability_that_the_server_does_not_know_leaves_the_word(unknown: float) -> None:
    def said(word: str) -> Reply:
        return Reply(text=word, token_logprobs=(TokenLogprob(token=word, logprob=unknown),))

    assert (read_verdict(said("yes")), read_verdict(said("no"))) == (1.0, 0.0)
    assert read_number(said("2"), 3) == (1, 1.0), "else all would score 0, and the first be chosen"


tokens = st.lists(
    st.builds(
        TokenLogprob, token=st.text(max_size=4) | st.sampled_from(["yes", "no", "1"]), logprob=st.floats(max_value=9)
    ),
    max_size=5,
).map(tuple)


@given(st.text(max_size=20), st.none() | tokens)
def test_any_reply_is_a_score_or_nothing(text: str, logprobs: tuple[TokenLogprob, ...] | None) -> None:
    said = Reply(text=text, token_logprobs=logprobs)
    score = read_verdict(said)
    assert score is None or 0 <= score <= 1
    number = read_number(said, 3)
    assert number is None or (0 <= number[0] < 3 and 0 <= number[1] <= 1)
