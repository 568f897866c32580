"""Replies and the log-probabilities of their tokens."""

import pytest

from reground.core.language import Reply, TokenLogprob


def reply(text: str, *tokens: tuple[str, float]) -> Reply:
    scored = tuple(TokenLogprob(token=token, logprob=logprob) for token, logprob in tokens)
    return Reply(text=text, token_logprobs=scored)


def spelled(given: Reply) -> list[str] | None:
    return None if given.token_logprobs is None else [token.token for token in given.token_logprobs]


@pytest.mark.parametrize(
    ("whole", "ranges", "kept", "tokens", "mean"),
    [
        (reply("a b", ("a", -0.1), (" b", -6.0)), [(0, 1)], "a", ["a"], -0.1),
        # of a token across the cut the part before it stays with its log-probability
        (reply("one END", ("one", -0.1), (" END", -0.3), ("more", -9.0)), [(0, 4)], "one ", ["one", " "], -0.2),
        (
            reply("ab[x]cd", ("ab[", -1.0), ("x", -9.0), ("]c", -2.0), ("d", -3.0)),
            [(0, 2), (5, 7)],
            "abcd",
            ["ab", "c", "d"],
            -2.0,
        ),
        # white space that a server took off the text
        (reply("a b", (" a", -0.1), (" b", -6.0)), [(0, 1)], "a", ["a"], -0.1),
        # the end token that no text shows
        (reply("a b", ("a", -0.1), (" b", -0.3), ("<|im_end|>", -2.0)), [(0, 3)], "a b", ["a", " b"], -0.2),
    ],
)
def test_a_part_of_a_reply_keeps_the_tokens_that_spell_it_and_their_mean(
    whole: Reply, ranges: list[tuple[int, int]], kept: str, tokens: list[str], mean: float
) -> None:
    part = whole.only(ranges)
    assert (part.text, spelled(part), part.mean_logprob) == (kept, tokens, mean)


@pytest.mark.parametrize(
    "tokens",
    [
        [("", -0.1), ("", -6.0)],  # a server that gives no token texts
        [("token_id:5", -0.1), ("token_id:9", -6.0)],  # or their numbers
        [("<think>a", -0.1), ("b", -6.0)],  # or tokens that are not in the text
    ],
)
def test_tokens_that_do_not_spell_the_text_give_no_mean_for_a_part_of_it(tokens):
    assert reply("a b", *tokens).upto(1).token_logprobs is None
