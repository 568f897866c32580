"""Quotations at the beginning of a reply, and the pieces of a text that they are copies of."""

import pytest

from reground.text.quotations import copied, quotations

TEXT = """The Danube is **not** 2850
km long. It rises in the “Black Forest”. See [its page](http://x.org/a) and `exit_code` [2]. It falls to -2.5 m.
| Seine | 775 |
if a > 1:
    return 'x' # セーヌ川は
パリを流れる。"""


@pytest.mark.parametrize(
    ("quotation", "pieces"),
    [
        ("the Danube is not 2850 km long.", ["The Danube is **not** 2850\nkm long"]),
        ("The Danube ... rises in the 'Black Forest'.", ["The Danube", "rises in the “Black Forest"]),
        ('the Black Forest." "See its page', ["the “Black Forest", "See [its page"]),
        ("and exit_code (2). It falls to −2.5 m", ["and `exit_code` [2]. It falls to -2.5 m"]),
        ("Seine | 775", ["Seine | 775"]),
        ('if a > 1: return "x"', ["if a > 1:\n    return 'x"]),
        ("セーヌ川はパリを流れる", ["セーヌ川は\nパリを流れる"]),
    ],
)
def test_a_copy_is_found_whatever_its_white_space_marks_and_markup(quotation: str, pieces: list[str]) -> None:
    assert copied(quotation, TEXT) == pieces


@pytest.mark.parametrize(
    "quotation",
    [
        "The Danube is 2850 km",
        "is not 285",
        "falls to 2.5",
        "to -2",
        "Black Fores",
        "exit code",
        "The Danube ... flows",
    ],
)
def test_no_other_letter_word_or_number_is_a_copy(quotation: str) -> None:
    assert copied(quotation, TEXT) == []


@pytest.mark.parametrize(
    ("reply", "found", "rest"),
    [
        ('[1] "A is a river." [2] "B is not one."\nX', ["A is a river.", "B is not one."], "X"),
        ('1. "Of an "Irish Tenor"." [1]\n\n2. “B is not one” [2, 3].', ['Of an "Irish Tenor".', "B is not one"], ""),
        ("From passage [2]: « La Seine coule. »\n\nParis", ["La Seine coule."], "Paris"),
        ("「セーヌ川は流れる。」[1]\nパリ", ["セーヌ川は流れる。"], "パリ"),
        ('"Of two\nlines" [1]\nX', ["Of two lines"], "X"),
        ("> It is quick. [1]\n\nX", ["It is quick"], "X"),
        ('"Of more\nlines" [1] than two.\nX', [], None),
        ("`exit_code = 4` [1]\n4", ["exit_code = 4"], "4"),
        ('"War and Peace" [1] was written by Tolstoy.', [], None),
        ('The sign says: "No entry after dark" [1].\nIt is old.', [], None),
        ('"Paris" [1]', [], None),
        ("```python\nexit_code = 4\n```\n4", [], None),
        ("The Danube is 2850 km long [1].", [], None),
    ],
)
def test_a_reply_is_parted_behind_its_quotations(reply: str, found: list[str], rest: str | None) -> None:
    assert quotations(reply) == (found, reply if rest is None else rest)
