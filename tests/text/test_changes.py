import pytest

from reground.text.alignment import changes


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (
            "The Danube has 2000 km in all.",
            "The Danube has 2850 km [1] in all.",
            [("", "", "The Danube has"), (" 2000 km", " 2850 km [1]", " in all."), ("", "", "")],
        ),
        ("a " * 5000, "b " * 5000, [("a " * 5000, "b " * 5000, "")]),  # too long to be compared
    ],
)
def test_words_that_changed_stand_beside_those_that_stay(
    before: str, after: str, found: list[tuple[str, str, str]]
) -> None:
    assert list(changes(before, after)) == found


def test_what_was_put_in_and_what_stays_are_the_new_text() -> None:
    new = "  a x\n c d e f "
    for before, after in (("a b\n\nc d e", new), ("", new), (new, "")):
        assert "".join(put + kept for _, put, kept in changes(before, after)) == after
