"""What is a marker and what only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.evidence import cited_markers, without_unknown

FIVE = range(1, 6)


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Long [2], short [4; 9] and [2].", [2, 4]),
        ("Long.[1] Longer[3].", [1, 3]),
        ("It is 2850 km[2] or 900 m [1].", [2, 1]),
        ("See [1].\n```python\nx = a[2]\n```\nand `b[3]`, [4]", [1, 4]),
        ("```python\nx[1]", []),
        ("The value a[1] and row_2[3], in 1990[2].", [2]),
        ("COVID19[1] and CO2[2], X2[3] and MAX_2[4].", [1, 2]),
        ("x = [1, 2] and \\sqrt[3]{8} and [4](http://a.b)", []),
        ("The list is [1, 2], as [1, 2] say.", [1, 2]),
        ("In [2019] and [0] and [12].", []),
    ],
)
def test_a_number_in_brackets_cites_unless_it_is_an_index_a_list_or_a_year(text: str, cited: list[int]) -> None:
    assert cited_markers(text, most=5) == cited


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Vienna lies on the Danube [7].", "Vienna lies on the Danube."),
        ("Vienna lies on the Danube[7].", "Vienna lies on the Danube."),
        ("The Danube [2][7] is long.", "The Danube [2] is long."),
        ("The Danube [2], [7] and [9].", "The Danube [2]."),
        ("The Danube [2, 7; 4] is long.", "The Danube [2, 4] is long."),
        ("The Danube ([7]) is long.", "The Danube is long."),
        ("Sources:\n[2] Danube\n[7]: Nile", "Sources:\n[2] Danube\nNile"),
        ("**The Danube [7]** it is.", "**The Danube** it is."),
    ],
)
def test_a_marker_that_names_nothing_is_taken_out(text: str, left: str) -> None:
    cleaned, unknown = without_unknown(text, FIVE)
    assert cleaned == left
    assert unknown and not set(unknown) & set(FIVE)


KEPT = [
    "The first is a[7] and the next `rows[8]`.", "```python\nrows = [7]\nprint(rows[9])\n```",
    "It was built in [2019], step [0] of all.", "The roots are [7, 9].", "x = [7], y[8] + 1 and values[9] = 3.",
    "A link: [7](http://example.org).", "Long [2] and short [1, 5].", "900 m [1] and 3 s[2].",
]  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_marker_or_names_a_passage_is_left_as_it_is(text: str) -> None:
    assert without_unknown(text, FIVE) == (text, [])


pieces = st.lists(
    st.sampled_from(["[3]", "[7]", "[1, 9]", "a", " ", "\n", "`", "```", "(", ")", ",", "is "]), max_size=12
)


@given(pieces)
def test_after_one_pass_every_marker_left_names_a_passage(parts: list[str]) -> None:
    cleaned, _ = without_unknown("".join(parts), FIVE)
    assert without_unknown(cleaned, FIVE) == (cleaned, [])


@given(st.text(alphabet="[]0123456789,; a", max_size=30), st.integers(0, 20))
def test_no_citation_names_a_passage_that_is_not_there(text: str, most: int) -> None:
    assert all(1 <= marker <= most for marker in cited_markers(text, most=most))
