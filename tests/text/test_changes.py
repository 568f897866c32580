from __future__ import annotations

from reground.text.alignment import changes


def after(found: list[tuple[str, str, str]]) -> str:
    return "".join(put + kept for _, put, kept in found)


def test_words_that_changed_stand_beside_those_that_stay() -> None:
    found = list(changes("The Danube has 2000 km in all.", "The Danube has 2850 km [1] in all."))
    assert found == [("", "", "The Danube has"), (" 2000 km", " 2850 km [1]", " in all."), ("", "", "")]


def test_what_was_put_in_and_what_stays_are_the_new_text() -> None:
    before, new = "a b\n\nc d e", "  a x\n c d e f "
    assert after(list(changes(before, new))) == new
    assert after(list(changes("", new))) == new
    assert after(list(changes(new, ""))) == ""


def test_very_long_texts_are_not_compared() -> None:
    old, new = "a " * 5000, "b " * 5000
    assert list(changes(old, new)) == [(old, new, "")]
