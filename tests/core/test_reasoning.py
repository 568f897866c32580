"""What a reasoning model thinks is told apart from what it says, whichever adapter it came through."""

from __future__ import annotations

import time

import pytest

from reground.core.journal import MemoryJournal
from reground.core.language import Reply, Sampling, TokenLogprob, Usage
from reground.core.reasoning import separate
from reground.core.run import Run
from reground.models.scripted import ScriptedModel


def tokens(*pairs: tuple[str, float]) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token=token, logprob=logprob) for token, logprob in pairs)


@pytest.mark.parametrize(
    ("said", "reasoning", "text"),
    [
        ("Plain.", None, "Plain."),
        ("<think>\nHm, 2+2.\n</think>\n\nAnswer: 4", "Hm, 2+2.", "Answer: 4"),
        ("\n <think></think>\n\nAnswer: 4", "", "Answer: 4"),
        ("Hm, 2+2.\n</think>\n\nAnswer: 4", "Hm, 2+2.", "Answer: 4"),
        ("<think>never ends, cut by the", "never ends, cut by the", ""),
        ("<think>a</think>\n<think>b</think>4", "a\n\nb", "4"),
        ("[THINK]a[/THINK]4", "a", "4"),
        ("The tag <think> opens a thought.", None, "The tag <think> opens a thought."),
        ("The tags <think> and </think> frame a thought.", None, "The tags <think> and </think> frame a thought."),
    ],
)
def test_a_thought_is_taken_out_of_the_text(said: str, reasoning: str | None, text: str) -> None:
    reply = separate(Reply(text=said))
    assert (reply.reasoning, reply.text) == (reasoning, text)
    assert separate(reply) == reply


def test_log_probabilities_are_those_of_the_answers_tokens() -> None:
    said = tokens(("<think>", 0.0), ("hm", -5.0), ("</think>", 0.0), ("\n\n", -0.5), ("Four", -1.0), (".", -2.0))
    reply = separate(Reply(text="<think>hm</think>\n\nFour.", token_logprobs=said))
    assert reply.token_logprobs == said[4:]
    assert reply.mean_logprob == -1.5


def test_a_token_that_ends_the_thought_and_begins_the_answer_is_cut() -> None:
    said = tokens(("hm</", -5.0), ("think>Fo", -1.0), ("ur", -2.0), ("<|end|>", 0.0))
    reply = separate(Reply(text="hm</think>Four", token_logprobs=said))
    assert reply.token_logprobs == tokens(("Fo", -1.0), ("ur", -2.0))


def test_a_server_that_names_the_thought_apart_but_not_its_log_probabilities() -> None:
    said = tokens(("hm", -5.0), ("</think>", 0.0), ("\n", 0.0), ("Four", -1.0), ("<eos>", -9.0))
    reply = separate(Reply(text="Four", reasoning="hm", token_logprobs=said))
    assert reply.token_logprobs == said[3:4]
    assert separate(Reply(text="Four", reasoning="hm", token_logprobs=said[3:4])).token_logprobs == said[3:4]
    assert separate(Reply(text="Four", reasoning="hm", token_logprobs=said[:1])).token_logprobs is None


def test_an_unfinished_thought_has_no_tokens_of_an_answer() -> None:
    reply = separate(Reply(text="<think>hm", token_logprobs=tokens(("<think>", 0.0), ("hm", -5.0))))
    assert reply.token_logprobs == ()
    assert reply.mean_logprob is None


async def test_a_method_sees_the_text_and_the_trajectory_keeps_the_thought() -> None:
    journal = MemoryJournal()
    first = ["<think>a b</think>One", "c</think>Two"]
    run = Run(journal=journal)
    replies = await run.generate(ScriptedModel(first), "Why?", name="x", sampling=Sampling(n=2, temperature=1.0))
    assert [(reply.reasoning, reply.text) for reply in replies] == [("a b", "One"), ("c", "Two")]
    assert replies[0].usage == Usage(calls=1, prompt=1, completion=3)
    again = Run(journal=journal)
    assert await again.generate(ScriptedModel([]), "Why?", name="x", sampling=Sampling(n=2, temperature=1.0)) == replies
    (step,) = again.steps
    assert '"reasoning":"a b"' in step.model_dump_json()


def test_a_reply_recorded_before_thoughts_were_told_apart_can_be_read() -> None:
    assert Reply.model_validate_json('{"text": "Old."}').reasoning is None


def test_a_long_thought_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        pieces = ["<think>"] * size + ["</think>", "Four"]
        reply = Reply(text="".join(pieces), token_logprobs=tokens(*((piece, -1.0) for piece in pieces)))
        started = time.process_time()
        assert separate(reply).text == "Four"
        return time.process_time() - started

    seconds(1000)
    assert seconds(80_000) < 40 * max(seconds(10_000), 0.01)
