"""What an answer claims, sentence by sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import ABSTENTION
from reground.support.lexical import claims

QUESTION = "When was the tower completed?"


@pytest.mark.parametrize(
    ("text", "said", "alone"),
    [
        ("The tower was completed in 1889 [1].", "The tower was completed in 1889.", False),
        ("In 1889 [1].", "In 1889.", True),
        ("Answer: 1889", "1889", True),
        ("**Final answer:** the tower of the exposition in Paris", "the tower of the exposition in Paris", True),
        ("- **The tower** was completed in 1889.", "The tower was completed in 1889.", False),
        ("2. The tower was completed in 1889.", "The tower was completed in 1889.", False),
        ("The __exit_code__ of `Usage_Error` is _2_, they say.", "The exit_code of Usage_Error is 2, they say.", False),
        ("于1889年建成。", "于1889年建成。", True),
        ("阿尔伯特·爱因斯坦。", "阿尔伯特·爱因斯坦。", True),
        ("レオナルド・ディカプリオ", "レオナルド・ディカプリオ", True),
        ("埃菲尔铁塔于1889年建成。", "埃菲尔铁塔于1889年建成。", False),
        ("高さは三百三十メートルである。", "高さは三百三十メートルである。", False),
    ],
)
def test_what_a_sentence_claims(text: str, said: str, alone: bool) -> None:
    (claim,) = claims(text, QUESTION)
    assert (claim.statement, claim.question, claim.alone) == (said, QUESTION, alone)


def test_yes_claims_what_the_question_asks_and_no_is_not_compared() -> None:
    question = "Did Marie Curie win two Nobel Prizes?"
    for said in ("Yes.", "yes", "Answer: Yes"):
        assert [claim.statement for claim in claims(said, question)] == ["Did Marie Curie win two Nobel Prizes"]
    assert [claim.statement for claim in claims("No.", question)] == [""]
    assert [claim.statement for claim in claims("Yes, she won two.", question)] == ["Yes, she won two."]


NOTHING = [
    "Which tower is it?", "# The tower", "These are the facts:", "...", "[1]", ABSTENTION, "どの塔ですか？",
    "```python\n",
]  # fmt: skip


@pytest.mark.parametrize("text", NOTHING)
def test_what_claims_nothing(text: str) -> None:
    assert [claim.statement for claim in claims(text, QUESTION)] == [""]


def test_the_frame_of_a_table_or_of_code_claims_nothing_and_what_stands_in_it_does() -> None:
    table = "| Tower | Year |\n|:---|---:|\n| Eiffel | 1889 |\n"
    assert [claim.statement != "" for claim in claims(table, QUESTION)] == [False, False, True]
    code = "```sh\npip install towers\n```\nIt was 1889.\n~~~\nls\n~~~\n"
    said = ["", "pip install towers", "", "It was 1889.", "", "ls", ""]
    assert [claim.statement for claim in claims(code, QUESTION)] == said


@given(st.text(max_size=300))
def test_together_the_claims_are_the_text(text: str) -> None:
    assert "".join(claim.text for claim in claims(text, QUESTION)) == text
