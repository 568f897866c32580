"""Passages: cutting texts into pieces of bounded length along their structure, and putting them together again.

A token here is a run of at most six Latin letters or four others, a digit, a punctuation mark, or a Chinese, Japanese
or Korean character; white space is free. It needs no model and no vocabulary, so an index does not depend on one and
serves them all; docs/benchmarks.md compares it with the tokenizers of models. Pieces overlap a little. A document that
was cut has passages `id#1`, `id#2` and so on, in its order.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import itemgetter
from typing import NamedTuple, TypeVar

from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage

_CJK = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_LATIN = "A-Za-z_\u00c0-\u024f"
_TOKEN = re.compile(rf"[{_CJK}]|\d|[{_LATIN}]{{1,6}}|[^\W\d{_LATIN}{_CJK}]{{1,4}}|[^\w\s]")
_IS_CJK = re.compile(rf"[{_CJK}]")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_HEADING = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_FENCED = r"^(?P<fence>```|~~~)(?s:.*?)^(?P=fence)[^\n]*"
TABLE_HEAD = r"[^\n|]*+\|[^\n]*+\n[ \t]*+\|?[ \t]*+:?-[-:| \t]*+"
"""The names of the columns of a Markdown table, and the line below them."""
_TABLE = rf"^(?:(?P<head>{TABLE_HEAD})(?:\n[^\n|]*+\|[^\n]*+)++|\|[^\n]*+(?:\n\|[^\n]*+)++)"
_NAMED_ROW = r"^[^\n:;|]{1,60}: [^\n;]*+(?:;[^\n;]*+)*?; [^\n:;]{1,60}: [^\n]*+"
_ROW = rf"{_NAMED_ROW}|^[^\n;]{{1,60}}+(?:; [^\n;]{{0,60}}+){{2,}}+$"
_WHOLE = re.compile(f"{_FENCED}|(?P<rows>{_TABLE}|{_ROW})", re.MULTILINE)
_FIRST_CELL = re.compile(r"[^\n:;]{1,60}: [^\n;]{1,200}; ")
_NAME = re.compile(r"[^\n:;]{1,60}: ")
_LONGEST_CELL, _TRIED = 30_000, 50  # characters and semicolons behind which the name of a column is looked for
_LONGEST_MARK = 7
_STEP = 1_000_000  # characters that are searched at once for what stays whole, for Ctrl-C waits for a search
_SENTENCE_END = frozenset(".!?;:。！？；：…")
_CLOSING = frozenset("\"'”’)]」』）")

_INSIDE_WORD, _WORD, _LINE, _SENTENCE, _INDENTED, _PARAGRAPH_BREAK = range(6)


class Chunk(NamedTuple):
    """A piece of a text as a half-open range of its characters.

    above: the head of the table that it begins in; of a long row the first cell, and the name of its column.
    """

    start: int
    end: int
    above: str = ""

    def of(self, text: str) -> str:
        """The piece of the text, below what tells where it stands."""
        return self.above + text[self.start : self.end]


class _Whole(NamedTuple):
    """What stays whole, if it fits: code, a table or a row as readers write it. head: where a table's ends, or -1."""

    start: int
    end: int
    head: int
    has_rows: bool


def chunk(text: str, size: int, overlap: int = 0, *, is_code: bool = False) -> Iterator[Chunk]:
    """Cut a text into pieces of at most `size` tokens; consecutive ones share at most `overlap` tokens.

    Pieces come as they are found, and no more tokens are held than a piece has, so a text may be as large as it likes.

    In its later half a piece ends before a heading of Markdown (the next piece then shares nothing with it), else
    between paragraphs, most of all where no indented one follows, else between sentences, lines or words, and inside a
    word only where nothing else is left. Code between fences and tables of Markdown stay whole if they fit in a piece.
    The pieces of a longer table have its head, which is part of their size, and none begins inside of a row that fits.
    In them, and everywhere if `is_code`, lines come before sentences, and # begins no heading. No piece ends in a
    heading if it can end before it. Together the pieces hold every character that is not white space, in order. A text
    that fits is one piece; one without tokens is none.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ConfigurationError(
            f"pieces of {size} tokens cannot overlap by {overlap}: the overlap must be smaller than the piece"
        )
    return _Cutter(text, size, overlap, is_code).pieces()


@dataclass
class _Cutter:
    """Goes through a text once and holds the tokens of a piece, and the blocks that stay whole, as far as it is."""

    text: str
    size: int
    overlap: int
    is_code: bool
    tokens: list[tuple[int, int]] = field(default_factory=list)
    wholes: list[_Whole] = field(default_factory=list)
    searched: int = 0  # up to here it is known what stays whole

    def pieces(self) -> Iterator[Chunk]:
        """The pieces, one after the other."""
        text, size, tokens = self.text, self.size, self.tokens
        if len(text) <= size:  # a token has at least one character
            stripped = text.strip()
            start = text.find(stripped)
            if stripped:
                yield Chunk(start, start + len(stripped))
            return
        spans = (match.span() for match in _TOKEN.finditer(text))
        tokens += islice(spans, size + 1)  # those of the piece, and one that tells whether more follow
        done = 0
        while tokens:
            above, most = self._above()
            end, is_section = (len(tokens), True) if len(tokens) <= most else self._cut(most)
            if tokens[end - 1][1] > done:  # else it ends before a row, within what it shares
                yield Chunk(tokens[0][0], done := tokens[end - 1][1], above)
            if end == len(tokens):
                return
            del tokens[: end if is_section else self._restart(end)]
            tokens += islice(spans, size + 1 - len(tokens))

    def _above(self) -> tuple[str, int]:
        """What stands above a piece that begins in a table or in a row, and how many other tokens it may have."""
        self._find_wholes()
        start = self.tokens[0][0]
        whole = self._whole_at(start)
        above = ""
        if whole is not None and 0 < whole.head <= start and whole.head - whole.start < _LONGEST_CELL:
            above = self.text[whole.start : whole.head] + "\n"
        elif whole is not None and whole.has_rows:
            above = self._cell(whole.start, start)
        most = self.size - len(_TOKEN.findall(above))
        return (above, most) if most > max(self.size // 2, self.overlap) else ("", self.size)

    def _cell(self, row: int, place: int) -> str:
        """The first cell of a row, and the name of the column in which a place is; "" where one of them is unknown."""
        first = _FIRST_CELL.match(self.text, row, place)
        end = place
        for _ in range(_TRIED):
            end = self.text.rfind("; ", max(row, place - _LONGEST_CELL), end)
            if end < 0 or first is None:
                break
            if name := _NAME.match(self.text, end + 2):
                return first[0] + ("" if name.end() > place else name[0])
        return ""

    def _fits(self, whole: _Whole) -> bool:
        """Whether a part of the text is no longer than a piece."""
        tokens = islice(_TOKEN.finditer(self.text, whole.start, whole.end), self.size + 1)
        return sum(1 for _ in tokens) <= self.size

    def _cut(self, most: int) -> tuple[int, bool]:
        """Where the piece of at most that many tokens ends, and whether the next one shares nothing with it."""
        # More than `overlap` tokens are taken, so that the next piece begins after this one.
        place, is_section = self._strongest(max(most // 2, self.overlap), most)
        whole = self._whole_at(self.tokens[place][0])
        if whole is not None and self.tokens[0][0] < whole.start and self._fits(whole):
            before = bisect_left(self.tokens, (whole.start, 0))
            if before > self.overlap:  # and where a heading stands over it, before that
                return self._strongest(max(before - most // 8, self.overlap), before)
        if self._is_in_row(place):
            row = self.text.rfind("\n", self.tokens[0][0], self.tokens[place][0]) + 1
            before = bisect_left(self.tokens, (row, 0))
            return (before, before <= self.overlap) if before else (place, is_section)
        return place, is_section

    def _strongest(self, least: int, most: int) -> tuple[int, bool]:
        """The last of the strongest boundaries behind `least` up to `most`, and whether a section begins there."""
        start, end = self.tokens[min(least + 1, most)][0], self.tokens[most][0]
        marks = () if self.is_code else _HEADING.finditer(self.text, start, end + _LONGEST_MARK)
        places = (match.start() for match in marks)
        sections = [place for place in places if place <= end and self._whole_at(place) is None]
        if sections:
            return bisect_left(self.tokens, (sections[-1], 0)), True
        best, strength = most, -1
        for place in range(most, least, -1):
            here = self._boundary(place)
            if here > strength:
                best, strength = place, here
            if strength == _PARAGRAPH_BREAK:
                break
        return best, False

    def _restart(self, end: int) -> int:
        """Where the next piece begins: at a sentence in the overlap, or a line, or a word, or else `overlap` back."""
        places = range(end - self.overlap, end)
        half = places[: len(places) // 2]
        for wanted, among in ((_SENTENCE, half), (_LINE, half), (_WORD, places)):
            for place in among:
                if self._boundary(place) >= wanted and not self._is_in_row(place):
                    return place
        return end if any(map(self._is_in_row, places)) else end - self.overlap

    def _boundary(self, place: int) -> int:
        """How strong the boundary before token `place` is; before a heading it is that of a paragraph."""
        text, before, after = self.text, self.tokens[place - 1], self.tokens[place]
        gap = text[before[1] : after[0]]
        if "\n" in gap and _PARAGRAPH.search(gap):
            is_under_heading = not self.is_code and _HEADING.match(text, text.rfind("\n", 0, before[1]) + 1)
            if is_under_heading and self._whole_at(before[0]) is None:
                return _WORD
            return _INDENTED if gap[-1] in " \t" else _PARAGRAPH_BREAK
        last = text[before[1] - 1]
        if last in _CLOSING and before[1] > 1:
            last = text[before[1] - 2]
        is_cjk = bool(_IS_CJK.match(text[after[0]]))
        is_end = last in _SENTENCE_END and (gap or is_cjk)
        if is_end and ("\n" in gap or not (self.is_code or self._is_whole(after[0], last))):
            return _SENTENCE
        if gap or is_cjk or _IS_CJK.match(last):
            return _LINE if "\n" in gap else _WORD
        return _INSIDE_WORD

    def _is_whole(self, place: int, last: str) -> bool:
        """Whether a sentence does not end before a place: in code, and in a row but between its cells."""
        whole = self._whole_at(place)
        return whole is not None and not (whole.has_rows and last == ";")

    def _is_in_row(self, place: int) -> bool:
        """Whether a token stands in a row, behind its beginning."""
        whole = self._whole_at(self.tokens[place][0])
        gap = self.text[self.tokens[place - 1][1] : self.tokens[place][0]]
        return whole is not None and whole.has_rows and "\n" not in gap

    def _whole_at(self, place: int) -> _Whole | None:
        """The block of code, the table or the row that the character stands in, behind its beginning."""
        at = bisect_left(self.wholes, (place, 0)) - 1
        return self.wholes[at] if at >= 0 and place < self.wholes[at].end else None

    def _find_wholes(self) -> None:
        """Find the blocks of the present tokens, and forget those before."""
        del self.wholes[: bisect_right(self.wholes, self.tokens[0][0], key=itemgetter(1))]
        while self.searched < self.tokens[-1][1] and not self.is_code:
            end = self.searched + _STEP
            for match in _WHOLE.finditer(self.text, self.searched, end):
                self.wholes.append(_Whole(*match.span(), match.end("head"), match["rows"] is not None))
            self.searched = max(end, self.wholes[-1].end if self.wholes else 0)


def passage_text(passage: Passage) -> str:
    """The title on a line of its own, then the text."""
    return f"{passage.title}\n{passage.text}".strip()


MOST = 50
"""Pieces of a page. Of a longer document those nearest to the passage are taken: some 20,000 tokens by default."""

_NUMBER = re.compile(r"#(\d+)$")
_HEAD = re.compile(rf"\A{TABLE_HEAD}\n")


def document_ids(passage_id: str) -> list[str]:
    """The ids of the documents that may hold a passage: its own id, and its id without the piece's number."""
    return list(dict.fromkeys([passage_id, _NUMBER.sub("", passage_id)]))


def whole(pieces: Sequence[Passage], document: str, *, around: str, overlapping: bool) -> Passage:
    """A document's pieces, in any order, as one passage under the document's id.

    around: the passage that the kept part of a long document lies around, by its id. overlapping: whether a piece
    begins with the end of the one before.
    """
    ordered = sorted(pieces, key=lambda piece: _number(piece.id))
    place = next((i for i, piece in enumerate(ordered) if piece.id == around), 0)
    first = max(0, min(place - MOST // 2, len(ordered) - MOST))
    chosen = ordered[first : first + MOST]
    text = chosen[0].text
    for before, piece in pairwise(chosen):
        follows = overlapping and _number(piece.id) == _number(before.id) + 1
        head = _HEAD.match(piece.text)
        own = (
            piece.text[head.end() :] if head and head[0] in text and "|" in before.text.split("\n")[-1] else piece.text
        )
        sizes = range(min(len(before.text), len(own)) if follows else 0, 0, -1)
        shared = next((size for size in sizes if before.text.endswith(own[:size])), 0)
        text += own[shared:] if shared else f"\n{own}"
    return chosen[0].model_copy(update={"id": document, "text": text, "score": 0.0})


def _number(passage_id: str) -> int:
    match = _NUMBER.search(passage_id)
    return int(match[1]) if match else 0


_TOLD = 8  # words that make a text the same under other headings; a shorter one may say another thing under each
_HEADINGS = re.compile(r"\A(?:\s*+(?:#{1,6}[ \t][^\n]*+|[^\n]++\n[-=~^+]{3,}+(?![^\n])))++")
_MARKS = str.maketrans("‘’“”", "''\"\"", "*_`\\\u00ad\u200b\ufeff")
"""Quotation marks of print as those of keyboards, and markup, which a copy may write in another way."""


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """The passages without copies of those before them: the same words, under whatever title, heading and markup."""
    kept: dict[tuple[str, ...], Passage] = {}
    for passage in passages:
        text = passage.text.translate(_MARKS)
        below = tuple(_HEADINGS.sub("", text, count=1).split())
        kept.setdefault(below if len(below) >= _TOLD else tuple(text.split()), passage)
    return list(kept.values())


_SHORTEST = 3  # characters of a title that is looked for; shorter ones stand everywhere

_RUN_OF_LETTERS = re.compile(r"\w+")
_BRACKETS = re.compile(r"\([^()]*\)\Z")


def normal(text: str, *, cased: bool = False) -> str:
    """Words, in lower case unless `cased`, between single spaces, so that a title is found only as whole words."""
    return f" {' '.join(_RUN_OF_LETTERS.findall(text if cased else text.lower()))} "


def normal_title(passage: Passage, *, cased: bool = False) -> str:
    """The title as it would stand in a text: without what a bracket adds, as in "Mercury (planet)"; "" if too short."""
    title = normal(_BRACKETS.sub("", html.unescape(passage.title).strip()), cased=cased)
    return title if len(title.strip()) >= _SHORTEST else ""


Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Item]], *, k: int = 60) -> list[tuple[Item, float]]:
    """Join rankings by the sum of 1 / (k + rank) over them, ranks counted from 1 (Cormack, Clarke, Büttcher 2009).

    Best first. Ties are ordered by the items' repr, so the order of the rankings makes no difference. An item counts
    once in a ranking, at its best place. Scores lie above 0 and are at most the
    number of rankings divided by k + 1.
    """
    terms: dict[Item, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            terms.setdefault(item, []).append(1 / (k + rank))
    # Summed in one order, because floating-point sums depend on it.
    scores = {item: sum(sorted(parts)) for item, parts in terms.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], repr(pair[0])))
