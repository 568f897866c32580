"""The share of a question's words that passages lack."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.methods.grounded import words_lacking

VIENNA = ["The Danube flows through Vienna and Budapest.", "Founded in 1889."]


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("Which river flows through Vienna?", 1 / 5),  # river; flows; Vienna counts 3
        ("Which river flows through Prague?", 4 / 5),
        ("which river flows through prague?", None),  # no name, so nothing is said
        ("Who was the founder in 1889?", 0.0),  # an ending does not count
        ("Who was the founder in 1890?", 3 / 4),
        ("Who was it?", None),
        ("", None),
        ("Vienna's river", None),  # the first word's capital makes no name
        ("Is Vienna's river long?", 2 / 5),  # s is no word
    ],
)
def test_names_and_numbers_count_three_times(question: str, share: float | None) -> None:
    assert words_lacking(question, VIENNA) == (share if share is None else pytest.approx(share))


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=4), st.text(max_size=80))
def test_it_is_a_share_that_more_text_never_raises(question: str, texts: list[str], more: str) -> None:
    share = words_lacking(f"{question} 1889", texts)
    assert share is not None
    assert 0.0 <= share <= 1.0
    assert (words_lacking(f"{question} 1889", [*texts, more]) or 0.0) <= share + 1e-12
    assert words_lacking(f"{question} 1889", [*texts, question, "1889"]) == 0.0
