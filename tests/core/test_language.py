"""Replies and the log-probabilities of their tokens."""

from __future__ import annotations

import pytest

from reground.core.language import Reply, TokenLogprob


def reply(text: str, *tokens: tuple[str, float]) -> Reply:
    scored = tuple(TokenLogprob(token=token, logprob=logprob) for token, logprob in tokens)
    return Reply(text=text, token_logprobs=scored)


def spelled(given: Reply) -> list[str] | None:
    return None if given.token_logprobs is None else [token.token for token in given.token_logprobs]


def test_a_cut_reply_keeps_the_tokens_that_spell_it_and_their_mean():
    cut = reply("a b", ("a", -0.1), (" b", -6.0)).upto(1)
    assert (cut.text, spelled(cut), cut.mean_logprob) == ("a", ["a"], -0.1)


def test_of_a_token_across_the_cut_the_part_before_it_stays_with_its_log_probability():
    cut = reply("one END", ("one", -0.1), (" END", -0.3), ("more", -9.0)).upto(4)
    assert (cut.text, spelled(cut), cut.mean_logprob) == ("one ", ["one", " "], -0.2)


def test_what_lies_between_the_kept_ranges_goes_with_its_tokens():
    kept = reply("ab[x]cd", ("ab[", -1.0), ("x", -9.0), ("]c", -2.0), ("d", -3.0)).only([(0, 2), (5, 7)])
    assert (kept.text, spelled(kept), kept.mean_logprob) == ("abcd", ["ab", "c", "d"], -2.0)


def test_white_space_that_a_server_took_off_the_text_shifts_no_token():
    cut = reply("a b", (" a", -0.1), (" b", -6.0)).upto(1)
    assert (spelled(cut), cut.mean_logprob) == (["a"], -0.1)


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


def test_the_end_token_that_no_text_shows_changes_nothing():
    whole = reply("a b", ("a", -0.1), (" b", -0.3), ("<|im_end|>", -2.0))
    assert spelled(whole.upto(3)) == ["a", " b"]
