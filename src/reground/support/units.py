"""The units that a claim is compared with: sentences, rows of tables and entries of manuals, each with its subject.

A sentence says little without what it stands under: the headings, the term that is defined, the line that introduces a
list, the head of a table. That is its subject. Rows, and what stands under a term or a name in code, have a key too:
what tells them from the rows and entries beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reground.core.evidence import Passage
from reground.text.sentences import sentences

_HEADING = re.compile(r"(#{1,6}|={1,6})[ \t]+(\S.*)")
_UNDERLINE = re.compile(r"([=~^\"'`*+_-])\1{2,}")
_DIRECTIVE = re.compile(r"\.\.[ \t]+[\w:+-]+::[ \t]*([^\s(]*+)(.*)")  # a name, and its parameters or more words
_FIELD = re.compile(r"(?::\w[\w -]{0,39}:|[^\s:][^:\n]{0,60}::)(?:\s|$)")
_DEFINITION = re.compile(
    r"\A([^\n:]{1,60})(?:::|\n:)[ \t]"  # of AsciiDoc and of Markdown
    r"|\A(?:[-*+•][ \t]+|:)?(`[^`\n]{1,60}`|[*]{2}[^*\n]{1,60}[*]{2}|\w{1,30}_\w{1,30})"
    r"(?:(?<=:[*]{2})|:|[ \t][-–—])[ \t]"
)
_SECTION = re.compile(r"\[[^\[\]\n]{1,60}\]\Z")  # of a file of settings
_SETTING = re.compile(r"\A(?:[A-Z][A-Z\d]+|\w{1,40}[._]\w[\w.]{0,60})[ \t]*+=(?!=)")
_PAIR = re.compile(r"\A[a-z][\w.-]{0,40}:(?:\s|\Z)")  # of a file of settings in YAML
_STAMP = re.compile(r".{0,60}?\d:\d\d:\d\d")  # of a line of a log
_ITEM = re.compile(r"(?:[-*+•–]|\d{1,3}[.)])[ \t]+")
_RULE = re.compile(r"\A(?=[^-=]*+[-=])[\s|:=+-]+")
_FENCE = re.compile(r"```|~~~(?!~)")
_BEGINNINGS = (_ITEM, _FIELD, _DIRECTIVE, _FENCE, _SECTION, _SETTING, _STAMP)
_SIGNS = re.compile(r"[\W_]++")  # as in fee_per_day_eur
_CELL = re.compile(r"([^:;]{1,100}): (.*)")  # of a row as readers write it: column: value; column: value
_NAME = re.compile(r"\A(?:`{1,2}[^`\s]+`{1,2}|[\w.]+\(.*\)|\w*[a-z0-9][_.A-Z]\w+|\w+_\w+|\[[^\[\]]+\])")
"""A text that is nothing but a name in code."""
_MARKS = re.compile(r":[\w-]+:(?=`)|[`*]")
_MAIL = re.compile(r"\.(?:eml|mbox)\b")
_UNKNOWN = "…"  # the key of what belongs to an entry whose name is not in the passage
_FEW = 3  # words of a term, or of a section of settings, that tells what is below from other entries
_TERM = 60  # characters of a line that may be a term, with its definition below it; a wrapped line is longer
_INTRODUCTION, _NEAREST = 200, 3
"""Characters of a line that what stands under it has as its subject, and the most such lines."""


Cells = tuple[tuple[str, str], ...]
"""The cells of a row: the name of the column without signs, "" where there is none, and the value."""


@dataclass(frozen=True)
class Evidence:
    """A sentence, a row or an entry. place: the passage's place among those compared.

    subject: what it stands under, beside the passage's title. key: what tells it from the rows or the entries beside
    it; empty for a sentence of prose. cells: of a row, the names of columns ("" where there is none) and the values.
    quoted: in a mail how many times it is quoted, so by whom it is not.
    """

    place: int
    passage: Passage
    sentence: str
    subject: str = ""
    key: str = ""
    cells: Cells = ()
    quoted: int = 0


def evidence(passages: Sequence[Passage]) -> list[Evidence]:
    """Every unit of the passages that has a letter or a digit."""
    return [
        Evidence(place, passage, sentence, block.subject, block.key, block.cells, block.quoted)
        for place, passage in enumerate(passages)
        for block in _keyed([*_Outline().blocks(passage.text, is_mail=_MAIL.search(passage.page_id) is not None)])
        for sentence in block.sentences()
    ]


def _keyed(blocks: Sequence[_Block]) -> Sequence[_Block]:
    """The blocks, of which those before the first entry belong to one whose name is in another passage, and those that
    define a term have it as their key."""
    first = next((at for at, each in enumerate(blocks) if each.key and not each.cells), 0)
    for block in blocks[:first]:
        block.key = block.key or _UNKNOWN
    for block in blocks:
        if not block.key and (match := _DEFINITION.match("\n".join(block.lines))) is not None:
            term = match[1] or match[2]
            block.key, block.subject = "" if term.startswith("**") else term, f"{block.subject} {term}".strip()
    return blocks


@dataclass
class _Block:
    """Lines that belong together.

    indent: twice that of its first line, and one more for the item of a list. name: what entries under it are known by.
    whole: whether it is a unit as it is. is_open: whether the next line may go on with it.
    """

    lines: list[str]
    indent: int = 0
    subject: str = ""
    key: str = ""
    name: str = ""
    cells: Cells = ()
    whole: bool = False
    is_open: bool = False
    quoted: int = 0

    @property
    def text(self) -> str:
        return " ".join(self.lines)

    def sentences(self) -> Iterator[str]:
        for part in [self.text] if self.whole else sentences(self.text):
            if any(map(str.isalnum, part)):
                yield part.strip()


class _Outline:
    """Goes through the lines of a text, and holds what the next one stands under: headings, and lines over others."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._marks: list[str] = []
        self._over: list[_Block] = []
        self._head: str | None = None
        self._in_fence = False

    def blocks(self, text: str, *, is_mail: bool) -> Iterator[_Block]:
        """The blocks of a text, in order. Those of a mail end where a quotation begins or ends."""
        block: _Block | None = None
        lines = text.split("\n")
        for raw, below in zip(lines, [*lines[1:], ""], strict=True):
            line, indent = raw.strip(), 2 * (len(raw) - len(raw.lstrip()))
            is_told = line.endswith(":") and below.startswith(">")  # "On 3 May Ada wrote:"
            marked = below if is_told else line
            quoted = marked[: len(marked) - len(marked.lstrip("> "))].count(">") if is_mail else 0
            if block is not None and block.is_open and not self._in_fence and quoted == block.quoted:
                if _goes_on(block, line, indent):
                    block.lines.append(line)
                    continue
                if _UNDERLINE.fullmatch(line):
                    self._marks += [] if line[0] in self._marks else line[0]  # the first mark is the highest
                    self._enter_heading(self._marks.index(line[0]), block.text)
                    block.whole, block.is_open = True, False
                    continue
            if block is not None:
                yield block
            block = self._begun(line, indent, below.strip())
            if block is not None:
                block.quoted = quoted
        if block is not None:
            yield block

    def _begun(self, line: str, indent: int, below: str) -> _Block | None:
        """The block that a line begins; none for an empty one, and for the rule of a table."""
        if _FENCE.match(line):
            self._in_fence = not self._in_fence
        is_in_table = self._head is not None or bool(_RULE.fullmatch(below) and {"|", "+"} & {*below})
        is_row = (line.startswith("|") or ("|" in line and is_in_table)) and not self._in_fence
        is_rule = not self._in_fence and _RULE.fullmatch(line) is not None
        self._head = self._head if is_row or is_rule else None
        if not line or is_rule:
            return None
        if self._in_fence:
            return self._entered(_Block([line], indent))
        if is_row:
            return self._row(line, indent, below)
        if (heading := _HEADING.fullmatch(line)) is not None and not indent:
            self._enter_heading(len(heading[1]), heading[2].strip("# "))
            return _Block([line], whole=True)
        if _SECTION.fullmatch(line) and "=" in below:
            self._enter_heading(1, line)
            return _Block([line], whole=True)
        if (directive := _DIRECTIVE.fullmatch(line)) is not None:
            is_name = directive[1][:1].isalpha() and directive[2][:1] in ("", "(")
            return self._entered(_Block([line], indent, name=directive[1] if is_name else ""))
        if cells := _record(line):
            key = "; ".join(value for _, value in cells)
            return self._entered(_Block([line], indent, key=key, cells=cells, whole=True))
        at = indent + (1 if _ITEM.match(line) else 0)
        return self._entered(_Block([line], at, name=line if _NAME.fullmatch(line) else "", is_open=True))

    def _row(self, line: str, indent: int, below: str) -> _Block:
        """A row of a table with bars. The first one over a rule has the names of the columns."""
        if self._head is None and below and _RULE.fullmatch(below):
            self._head = line
            return self._entered(_Block([line], indent, whole=True))
        names = columns(self._head or "")
        values = columns(line)
        cells = tuple(zip((_SIGNS.sub(" ", name) for name in names), values, strict=False)) if self._head else ()
        return self._entered(
            _Block([line], indent, subject=" ".join(names), key="; ".join(values), cells=cells, whole=True)
        )

    def _enter_heading(self, level: int, text: str) -> None:
        self._headings = [*(each for each in self._headings if each[0] < level), (level, text)]
        self._over = []

    def _entered(self, block: _Block) -> _Block:
        """The block with its subject and its key; lines of a greater indent stand under it, and items under a colon."""
        self._over = [
            each
            for each in self._over
            if each.indent // 2 < block.indent // 2
            or (each.indent < block.indent and each.text.rstrip().endswith((":", "：")))
        ]
        headings = [text for _, text in self._headings]
        over = [each.text[-_INTRODUCTION:] for each in self._over[-_NEAREST:]]
        block.subject = " ".join(filter(None, [block.subject, *headings, *over]))
        names = [text for text in headings if _NAME.fullmatch(text)] + [each.name for each in self._over if each.name]
        block.key = block.key or (names[-1] if names else "")
        if not block.whole:
            self._over.append(block)
        return block


def _goes_on(block: _Block, line: str, indent: int) -> bool:
    """Whether a line belongs to the block above it: it begins nothing of its own, and is no definition of a term."""
    is_under = indent // 2 > block.indent // 2 and not block.indent % 2
    if is_under and all(len(each.split()) <= _FEW for each in block.lines):
        block.name = block.name or block.text
    begins = line[:1] in ("", "|") or any(each.match(line) for each in _BEGINNINGS)
    begins |= line.endswith(":") and " " not in line and indent < block.indent
    begins |= not block.indent % 2 and bool(_PAIR.match(line) and _PAIR.match(block.lines[-1]))
    if begins or _record(line) or _UNDERLINE.fullmatch(line) or _HEADING.fullmatch(line):
        return False
    is_term = len(block.lines) == 1 and len(block.lines[0]) < _TERM
    return not (is_under and (is_term or block.name))


def _record(line: str) -> Cells:
    """The cells of a row as readers write it; none of another line."""
    matches = [(_CELL.fullmatch(cell), cell) for cell in line.split("; ")]
    cells = tuple((_SIGNS.sub(" ", match[1]), match[2]) if match else ("", cell) for match, cell in matches)
    labelled = sum(bool(label) for label, _ in cells)
    return cells if labelled > 1 and 2 * labelled >= len(cells) else ()


def columns(row: str) -> list[str]:
    """The cells of a row of a table with bars."""
    return [_MARKS.sub("", cell).strip() for cell in row.strip("|").split("|")]
