import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground.retrieval.chunking import _TOKEN, chunk

WORDS = st.sampled_from(
    ["a", "word", "antidisestablishmentarianism", "x1", "北京", "是", "naïve", "--", "'tis", "3.14"]
)
GAPS = st.sampled_from([" ", "\n", "\n\n", ". ", "! ", "。", "", "\t", "\u3000", "\n \n"])
LINES = st.sampled_from(
    ["# h", "## h", "```", "~~~", "| a | b |", "| - | - |", "a: b; c: d", "a b. c", "    d", "", "x" * 20]
)
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(st.tuples(WORDS, GAPS), max_size=80).map(lambda pairs: "".join(word + gap for word, gap in pairs)),
    st.lists(LINES).map("\n".join),
)


def count_tokens(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))


SIZES = st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(TEXTS, SIZES)
@example("aaaaaa" * 50, (5, 4))
@example("。" * 50, (2, 1))
@example(" " * 50, (10, 0))
@example("one two three four five six seven eight nine ten", (4, 3))
@example("0\n|0000\n|0", (6, 5))
def test_pieces_are_short_enough_lose_nothing_and_overlap_as_asked(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = list(chunk(text, size, overlap))
    assert all(0 < count_tokens(piece.of(text)) <= size for piece in pieces)
    covered = {place for piece in pieces for place in range(piece.start, piece.end)}
    assert all(text[place].isspace() for place in range(len(text)) if place not in covered)
    for before, after in pairwise(pieces):
        assert before.start < after.start and before.end < after.end
        assert count_tokens(text[after.start : before.end]) <= overlap
    if 0 < count_tokens(text) <= size:
        assert [text[piece.start : piece.end] for piece in pieces] == [text.strip()]
    assert count_tokens(text) <= sum(not character.isspace() for character in text)


def test_tokens_are_pieces_of_words_marks_and_ideographs() -> None:
    assert count_tokens("It rained, then.") == 5
    assert count_tokens("antidisestablishmentarianism") == 5  # 28 letters
    assert count_tokens("北京是首都") == 5
    assert count_tokens("北京2008ok") == 7  # models see each digit
    assert count_tokens("Привет") == 2
    assert count_tokens(" \n\t\u3000") == 0


def parts(text: str, size: int, overlap: int = 0) -> list[str]:
    return [piece.of(text) for piece in chunk(text, size, overlap)]


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


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("| Port | Depth: m |\n|------|:-----:|", "| Port {} | is {}; ebb: {} |"),
        ("Port | Depth\n--- | ---", "Port {} | is. {} ; {}"),
    ],
)
@pytest.mark.parametrize("overlap", [0, 7, 25])
def test_pieces_of_a_long_table_begin_with_its_head_and_a_row(head: str, row: str, overlap: int) -> None:
    rows = [row.format(number, number % 7, number % 5) for number in range(10, 60)]
    table = "\n".join([head, *rows])
    pieces = parts(f"# Ports\n\nSome words of it: these.\n\n{table}\n\nWords after it.", 60, overlap)
    assert len(pieces) > 10
    assert pieces[0].startswith("# Ports")
    for piece in pieces[1:-1]:
        lines = piece.removeprefix(f"{head}\n").split("\n")
        assert piece.startswith(head) and set(lines) <= {*rows, "", "Words after it."}, piece
    assert [line for line in dict.fromkeys("\n".join(pieces).split("\n")) if line in rows] == rows


def test_a_head_that_leaves_no_room_is_not_repeated_and_code_has_none() -> None:
    table = "| " + " | ".join(["column"] * 12) + " |\n|---|\n" + "| a | b |\n" * 30
    assert sum("column" in part for part in parts(table, 40)) <= 2
    code = "```\n| a | b |\n|---|---|\n" + "| c | d |\n" * 30 + "```"
    assert sum("| a |" in part for part in parts(code, 40)) == 1


@pytest.mark.parametrize("gap", ["\n\n", "\n"])
@pytest.mark.parametrize("overlap", [10, 50, 99])
@pytest.mark.parametrize("words", [3, 25, 60])
def test_a_piece_begins_with_a_whole_row_of_names_and_values(gap: str, overlap: int, words: int) -> None:
    rows = [
        f"name: Ship {n}; built: 19{n}-02-03; note: {'old; but dry. ' * (words // 3)}so: yes" for n in range(10, 40)
    ]
    pieces = parts(gap.join(rows), 100, overlap)
    assert all(piece.startswith("name: Ship") for piece in pieces if words < 60)
    assert sum(not piece.startswith("name: Ship") for piece in pieces) <= 30 * (words == 60)


@pytest.mark.parametrize("overlap", [0, 10, 40])
def test_a_piece_inside_of_a_long_row_says_whose_and_which_column_it_is(overlap: int) -> None:
    words = " ".join(f"w{n}" for n in range(150))
    row = f"ship: Nordlys; built: 1931; repairs: {words}; crew: 12; log: calm; rain at 9; {words}; port: Vik"
    first, *rest = parts(f"Some words.\n\n{row}\n\nship: Vega; built: 1940; port: Bodo", 60, overlap)
    inside = [piece for piece in rest if "Vega" not in piece]
    assert len(inside) > 6
    for piece in inside:
        assert piece.startswith("ship: Nordlys; ")
        assert piece[15:].startswith(("built: ", "repairs: ", "crew: ", "log: ", "port: "))
        assert count_tokens(piece) <= 60
    assert any(piece.startswith("ship: Vega") for piece in rest) or "Vik\n\nship: Vega" in rest[-1]
    assert re.findall(r"w\d+", " ".join([first, *rest]))[:150:149] == ["w0", "w149"]


def test_a_long_line_that_is_no_row_has_nothing_above_it() -> None:
    line = "Note: " + "it rained; " * 99
    assert all(not piece.startswith("Note: it rained; Note") for piece in parts(line, 40)[1:])


@pytest.mark.parametrize("cell", ["9.5", "Gate of the quay"])
def test_a_piece_begins_with_a_whole_row_of_values(cell: str) -> None:
    rows = [f"Ship {number}; {'; '.join([cell] * 9)}" for number in range(10, 40)]
    assert all(piece.startswith("Ship") for overlap in (10, 45) for piece in parts("\n\n".join(rows), 100, overlap))


def test_code_that_does_not_fit_is_cut_at_blank_lines_then_at_lines() -> None:
    text = "```\n" + "call(a); more\n" * 6 + "```"
    assert all(part.endswith("more") for part in parts(text, 14)[:-1])
    functions = "def one():\n    a = 1\n\n    return a\n\n\ndef two():\n    # done: yes\n    return 2"
    pieces = chunk(functions, 16, is_code=True)
    assert [functions[piece.start : piece.end].split("(")[0] for piece in pieces] == ["def one", "def two"]


def test_cuts_between_sentences_else_between_words_else_inside_of_one() -> None:
    assert parts("One two three. Four five six. Seven", 7) == ["One two three.", "Four five six. Seven"]
    assert parts('He said "no." She left it there', 8) == ['He said "no."', "She left it there"]
    assert parts("他来了。她走了。我们笑", 6) == ["他来了。", "她走了。", "我们笑"]
    assert parts("one two three internationally five", 4) == ["one two three", "internationally five"]
    assert parts("a" * 20, 2) == ["a" * 12, "a" * 8]


def test_the_overlap_begins_at_a_sentence_if_it_can() -> None:
    text = "One two three four. Five six. Seven eight nine ten."
    assert parts(text, 8, 3) == ["One two three four. Five six.", "Five six. Seven eight nine ten."]
    assert parts("one two three four five six", 4, 2) == ["one two three four", "three four five six"]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1), (10, 11)])
def test_impossible_sizes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ConfigurationError, match="overlap"):
        chunk("text", size, overlap)
