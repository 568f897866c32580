from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground.retrieval.chunking import Chunk, chunk, count_tokens

WORDS = st.sampled_from(
    ["a", "word", "antidisestablishmentarianism", "x1", "北京", "是", "naïve", "--", "'tis", "3.14"]
)
GAPS = st.sampled_from([" ", "\n", "\n\n", ". ", "! ", "。", "", "\t", "\u3000", "\n \n"])
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(st.tuples(WORDS, GAPS), max_size=80).map(lambda pairs: "".join(word + gap for word, gap in pairs)),
)
SIZES = st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(TEXTS, SIZES)
@example("aaaaaa" * 50, (5, 4))
@example("。" * 50, (2, 1))
def test_pieces_are_short_enough_and_lose_nothing(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = list(chunk(text, size, overlap))
    for piece in pieces:
        assert 0 < count_tokens(text[piece.start : piece.end]) <= size
    covered = set()
    for piece in pieces:
        covered.update(range(piece.start, piece.end))
    lost = [text[i] for i in range(len(text)) if i not in covered and not text[i].isspace()]
    assert lost == []


@given(TEXTS, SIZES)
@example("one two three four five six seven eight nine ten", (4, 3))
def test_pieces_go_forward_and_overlap_no_more_than_asked(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = list(chunk(text, size, overlap))
    for before, after in pairwise(pieces):
        assert before.start < after.start
        assert before.end < after.end
        shared = text[after.start : before.end] if after.start < before.end else ""
        assert count_tokens(shared) <= overlap


@given(TEXTS, SIZES)
def test_what_fits_is_one_piece(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = list(chunk(text, size, overlap))
    if 0 < count_tokens(text) <= size:
        assert len(pieces) == 1
        assert text[pieces[0].start : pieces[0].end] == text.strip()
    assert (not pieces) == (not text.strip())
    assert list(chunk(text, size, overlap)) == pieces


@given(TEXTS)
def test_a_text_counts_at_most_its_characters(text: str) -> None:
    assert count_tokens(text) <= sum(not character.isspace() for character in text)


def test_tokens_are_pieces_of_words_marks_and_ideographs() -> None:
    assert count_tokens("It rained, then.") == 5
    assert count_tokens("antidisestablishmentarianism") == 5  # 28 letters
    assert count_tokens("北京是首都") == 5
    assert count_tokens("北京2008ok") == 7  # models see each digit
    assert count_tokens("Привет") == 2
    assert count_tokens(" \n\t\u3000") == 0


def parts(text: str, size: int, overlap: int = 0) -> list[str]:
    return [text[piece.start : piece.end] for piece in chunk(text, size, overlap)]


def test_cuts_between_paragraphs_first() -> None:
    text = "One two. Three four.\n\nFive six. Seven eight."
    assert parts(text, 9) == ["One two. Three four.", "Five six. Seven eight."]


def test_cuts_before_headings_first_and_the_section_overlaps_nothing() -> None:
    text = "# One\n\nOne two.\n\nThree four.\n\n## Two\n\nFive six.\n\nSeven eight."
    assert parts(text, 15, 4) == [text[: text.index("## Two")].rstrip(), text[text.index("## Two") :]]


def test_no_piece_ends_in_a_heading_of_what_follows() -> None:
    text = "One two three. Four five six.\n\n# Head\n\nSeven eight nine. Ten eleven twelve."
    assert parts(text, 11) == ["One two three. Four five six.", text[text.index("#") :]]


def test_code_and_tables_that_fit_stay_whole() -> None:
    code = "```sh\n# no heading\none two\n\nthree four\n```"
    before = "Words stand here before it. "
    assert parts(f"{before}\n\n{code}\n\nAnd after it.", 18)[1:2] == [code]
    table = "| a | b |\n| - | - |\n| c | d |"
    assert parts(f"{before}\n{table}\n\nAnd after it.", 18)[1:2] == [table]


def test_code_that_does_not_fit_is_cut_at_blank_lines_then_at_lines() -> None:
    text = "```\n" + "call(a); more\n" * 6 + "```"
    assert all(part.endswith("more") for part in parts(text, 14)[:-1])
    functions = "def one():\n    a = 1\n\n    return a\n\n\ndef two():\n    # done: yes\n    return 2"
    assert [part.split("(")[0] for part in chunked(functions, 16)] == ["def one", "def two"]


def chunked(text: str, size: int) -> list[str]:
    return [text[piece.start : piece.end] for piece in chunk(text, size, is_code=True)]


@given(st.lists(st.sampled_from(["# h", "## h", "```", "~~~", "| a | b |", "a b. c", "    d", "", "x" * 20])))
def test_whatever_the_structure_nothing_is_lost_or_too_long(lines: list[str]) -> None:
    text = "\n".join(lines)
    for size, overlap in ((1, 0), (5, 2), (12, 3), (12, 11)):
        pieces = list(chunk(text, size, overlap))
        covered = {place for piece in pieces for place in range(piece.start, piece.end)}
        assert all(text[place].isspace() for place in range(len(text)) if place not in covered)
        assert all(count_tokens(text[piece.start : piece.end]) <= size for piece in pieces)
        assert all(before.start < after.start and before.end < after.end for before, after in pairwise(pieces))


def test_cuts_between_sentences_where_no_paragraph_ends() -> None:
    assert parts("One two three. Four five six. Seven", 7) == ["One two three.", "Four five six. Seven"]
    assert parts('He said "no." She left it there', 8) == ['He said "no."', "She left it there"]
    assert parts("他来了。她走了。我们笑", 6) == ["他来了。", "她走了。", "我们笑"]


def test_cuts_between_words_where_no_sentence_ends() -> None:
    assert parts("one two three internationally five", 4) == ["one two three", "internationally five"]


def test_cuts_a_word_only_where_nothing_else_is_left() -> None:
    assert parts("a" * 20, 2) == ["a" * 12, "a" * 8]


def test_the_overlap_begins_at_a_sentence_if_it_can() -> None:
    text = "One two three four. Five six. Seven eight nine ten."
    assert parts(text, 8, 3) == ["One two three four. Five six.", "Five six. Seven eight nine ten."]
    assert parts("one two three four five six", 4, 2) == ["one two three four", "three four five six"]


def test_blank_texts_have_no_pieces() -> None:
    assert list(chunk("", 10)) == []
    assert list(chunk(" \n ", 10)) == []
    assert list(chunk("  x ", 10)) == [Chunk(2, 3)]
    assert list(chunk(" " * 50, 10)) == []


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1), (10, 11)])
def test_impossible_sizes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ConfigurationError, match="overlap"):
        chunk("text", size, overlap)
