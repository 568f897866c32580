from __future__ import annotations

from reground.view.marking import marked


def pieces(text: str, query: str, *quotes: str) -> list[tuple[str, str]]:
    found = marked(text, query, quotes)
    assert "".join(piece for piece, _ in found) == text
    return [(piece, marks) for piece, marks in found if marks]


def test_the_words_of_the_query_are_marked_by_their_stems() -> None:
    text = "Rivers of Austria: the Danube flows there."
    assert pieces(text, "Which river flowed through the Danube's valley?") == [
        ("Rivers", "q"),
        ("Danube", "q"),
        ("flows", "q"),
    ]


def test_words_that_say_nothing_and_single_letters_are_not_marked() -> None:
    assert pieces("Which of the two is today's?", "which of the Halley's") == []
    assert pieces("It took 7 days.", "7") == [("7", "q")]


def test_writing_without_spaces_is_marked_by_pairs() -> None:
    assert pieces("東京の川は隅田川です。", "隅田川") == [("隅", "q"), ("田", "q"), ("川", "q")]


def test_a_supporting_sentence_is_found_whatever_its_white_space() -> None:
    text = "One.\nThe Danube is\n  2850 km long. Two."
    assert pieces(text, "", "The Danube is 2850 km long.") == [("The Danube is\n  2850 km long.", "s")]
    assert pieces(text, "Danube", "The Danube is 2850 km long.") == [
        ("The ", "s"),
        ("Danube", "qs"),
        (" is\n  2850 km long.", "s"),
    ]
    assert pieces(text, "", "Not in it.", "") == []


def test_nothing_to_mark() -> None:
    assert marked("", "query", ["quote"]) == []
    assert marked("text", "", []) == [("text", "")]
