"""Where the steps of a draft begin, as a reader sees it, and which lines only frame them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from reground.core.code_blocks import code_blocks
from reground.text.excerpts import FUNCTION_WORDS, terms
from reground.text.sentences import sentences

_FENCE = re.compile(r"\A\s*+(```|~~~)\s*+(\S*)")
_PLAIN = frozenset({"", "text", "txt", "plaintext", "markdown", "md"})  # languages of a fence whose content is text
_RULE = re.compile(r"\A\s*+(?:[-*_=]\s*+){3,}+\Z")
_TITLE = re.compile(r"\A\s*+(?:#{1,6}\s|\*\*[^*]++\*\*[:：]?\s*+\Z)")
_NUMERALS = "一二三四五六七八九十"
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩"
_LETTERS = "abcdefgh"
_NUMBERED = re.compile(
    r"\A(?P<indent>\s*+)(?:[-*•]\s++)?+(?P<mark>#*+)[\s*_>【（(]*+(?P<word>[^\W\d_]{1,12}?)??\s*+"
    rf"(?P<number>\d{{1,3}}|[{_NUMERALS}{_CIRCLED}]|[{_LETTERS}](?=[.)]))[步条点]?+[*_]*+\s*+"
    rf"(?P<end>[.:)：、）](?!\d)|[-–—]\s|\ufe0f?\u20e3|(?<=[{_CIRCLED}])|(?<=[{_CIRCLED}]\s)|\Z)"
)
_BULLET = re.compile(r"\A(?P<indent>\s*+)[-*+•]\s++\S")
_FIRST = r"first(?:ly)?\b|erstens\b|zuerst\b|zunächst\b|首先|第一"
_BEGINS = re.compile(rf"\A\s*+(?:{_FIRST})", re.IGNORECASE)
_ORDINAL = re.compile(
    rf"\A\s*+(?:{_FIRST}|(?:second|third|fourth|last|final)(?:ly)?\b|(?:next|then)\b"
    r"|(?:zweitens|drittens|dann|danach|anschließend|schließlich|zuletzt)\b|其次|再次|然后|接着|最后|第[二三四])",
    re.IGNORECASE,
)
_IMPORT = re.compile(r"\A(?:#[^\n]*+\n)*+(?:import|from)\b")
_HEAD = re.compile(r"\A(?:(?:(?:async )?def|class|import|from)\b|@|#|[rbu]?[\"']{3}|\))")
"""What may stand above the first statement of a function."""
_CODE = re.compile(r"^(?:(?:async )?def|class|import|from|return)\b|^[ \t]*+\w++ = ", re.MULTILINE)
_QUOTES = re.compile(r"\"\"\"|'''")

_PARAGRAPH = 150  # characters from which on a line is a paragraph, where no blank line divides a text
_CHEER = 5  # maximum words of an exclamation that is no step: "Good luck, and happy mining!"
TEXT_WORDS = frozenset(
    {"text", "step", "steps", "plan", "answer", "passage", "passages", "program", "code", "response", "statement"}
    | {"claim", "information", "facts", "Text", "Schritt", "Schritte", "Schritten", "Plan", "Antwort", "Passage"}
    | {"Passagen", "Programm", "Aussage"}
)
"""The words by which prompts and replies name a text, as they are written inside a sentence."""
_WORD = re.compile(r"(?<![\w-])[^\W\d_]+(?![\w-])")
_SIGNS = re.compile(r"文本|原文|步骤|这一步|计划|答案|段落|代码|资料|陈述")
_QUOTE_SIGNS = frozenset('"“„«「『')
_SELF = re.compile(r"(?:\A|[.!?,;] )(?:I(?:['’]m|['’]d)?|[Ll]et me|[Ii]ch)\b(?!\.)")
_READER = re.compile(r"\b(?:you|your|du|dir|dein|ihnen)\b|[你您]", re.IGNORECASE)
_WE = re.compile(r"\b(?:you|we|let['’]s|wir)\b|我们", re.IGNORECASE)


def names_itself(text: str) -> bool:
    """Whether a text speaks of itself, as "this plan" or "the step" does, or its writer says "I".

    The label "STEP 3:" does not, nor do names: the Marshall Plan, World War I.
    """
    words = _WORD.findall(text)
    if words and words[0] not in TEXT_WORDS:
        words[0] = words[0].lower()
    return not TEXT_WORDS.isdisjoint(words) or _SIGNS.search(text) is not None or _SELF.search(text) is not None


def is_code(text: str) -> bool:
    """Whether a text holds lines of a program."""
    return _CODE.search(text) is not None


def _greets(sentence: str) -> bool:
    """Whether a sentence says nothing to check: a short exclamation, or one that speaks to the reader."""
    if any(map(str.isdigit, sentence)) or not _QUOTE_SIGNS.isdisjoint(sentence):
        return False
    cheers = sentence.rstrip(" *_")[-1:] in ("!", "！") and len(sentence.split()) <= _CHEER
    return cheers or (("!" in sentence or "！" in sentence) and _READER.search(sentence) is not None)


@dataclass
class _Part:
    """Lines that may be a step. kind: "text", "item" of a list or "code". is_title: whether all of them are titles."""

    kind: str
    lines: list[str] = field(default_factory=list)
    is_title: bool = True

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.is_title = self.is_title and _TITLE.match(line) is not None

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n").rstrip()

    @property
    def announces(self) -> bool:
        """Whether it ends in a colon, so that it belongs to what follows."""
        return self.lines[-1].rstrip(" *_")[-1:] in {":", "："}


def prose_steps(text: str, *, concluding: bool = False) -> list[str]:
    """The paragraphs and the items of lists, each with the titles above it.

    concluding: whether the last paragraph may be the answer, "So you have eight apples", and only an exclamation is a
    closing remark.
    """
    parts = _titled(_unframed(_parts(_lines(text)), concluding=concluding))
    if len(parts) == 1 < len(parts[0].lines) and all(len(line) > _PARAGRAPH for line in parts[0].lines):
        return list(parts[0].lines)
    return [step for part in parts for step in (_in_order(part.text) if part.kind == "text" else [part.text])]


def _titled(parts: Sequence[_Part]) -> list[_Part]:
    """The parts, in which a short line that is no sentence is the title of a paragraph below it."""
    result: list[_Part] = []
    for part in parts:
        above = result[-1] if result and result[-1].kind == "text" and part.kind != "code" else None
        line = above.lines[-1] if above else ""
        bare = line[-1:].isalnum() and " " in line and line[:1] != line[:1].lower()
        if above and len(above.lines) == 1 and bare and len(part.text) > 3 * len(line):
            above.lines += part.lines
            above.kind, above.is_title = part.kind, False
        else:
            result.append(part)
    return result


def _lines(text: str) -> list[tuple[str, bool]]:
    """The lines, and whether each belongs to a fenced program; rules and the fences of plain text are blank."""
    lines: list[tuple[str, bool]] = []
    mark, fenced = "", False
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if not mark and fence:
            mark, fenced = fence[1], fence[2].lower() not in _PLAIN
            lines.append((line, True) if fenced else ("", False))
        elif mark and line.strip() == mark:
            lines.append((line, True) if fenced else ("", False))
            mark, fenced = "", False
        else:
            lines.append(("", False) if not fenced and _RULE.fullmatch(line) else (line, fenced))
    return lines


def _parts(lines: Sequence[tuple[str, bool]]) -> list[_Part]:
    lists = _Lists(lines)
    parts: list[_Part] = []
    gap, item = True, -1
    for i, (line, fenced) in enumerate(lines):
        if not line.strip() and not fenced:
            gap = True
            continue
        itemised = i in lists.items
        last = parts[-1] if parts else None
        titled = last is not None and last.is_title and not (last.kind == "item" and itemised)
        announced = last is not None and last.kind == "text" and last.announces and len(parts) > 1
        if itemised:
            begins, item = not announced, i
        elif fenced:
            begins = gap and not announced and (last is None or last.kind == "text")
        else:
            begins = not lists.holds(i, line, item) and (gap or _TITLE.match(line) is not None)
        if last is None or (begins and not titled):
            last = _Part("item" if itemised else "code" if fenced else "text")
            parts.append(last)
        elif last.is_title and itemised:
            last.kind = "item"
        last.add(line.rstrip())
        gap = False
    return parts


class _Lists:
    """The lists of a draft that are no parts of others.

    items: for the first line of each item, the last item's first line of its list, and the most paragraphs below an
    item. The last item, whose end is unseen, may have as many.
    """

    def __init__(self, lines: Sequence[tuple[str, bool]]) -> None:
        # A line begins a paragraph after a blank line, if it is neither indented nor a bullet.
        above = ["-", *(line.strip() for line, _ in lines)]
        fresh = (
            line and not (over or line[0].isspace() or _BULLET.match(line))
            for (line, _), over in zip(lines, above, strict=False)
        )
        self._paragraphs = [0, *accumulate(map(bool, fresh))]
        self.items: dict[int, tuple[int, int]] = {}
        for items in _numbered(lines):
            body = max(self._below(a, b) for a, b in pairwise(items))
            self.items |= dict.fromkeys(items, (items[-1], body))
        runs: list[list[int]] = [[]]  # of bullets outside the numbered lists
        indent, item = 0, -1
        for i, (line, fenced) in enumerate(lines):
            bullet = None if fenced else _BULLET.match(line)
            if bullet and not self.holds(i, line.strip(), item):
                depth = len(bullet["indent"])
                indent = indent if runs[-1] else depth
                if depth <= indent:
                    runs[-1].append(i)
            elif line.strip() and not line[0].isspace() and not fenced:
                runs.append([])
            item = i if i in self.items else item
        for run in runs:
            if len(run) > 1:
                self.items |= dict.fromkeys(run, (run[-1], 0))

    def _below(self, start: int, end: int) -> int:
        """The paragraphs that begin between two lines."""
        return self._paragraphs[end] - self._paragraphs[min(end, start + 1)]

    def holds(self, i: int, line: str, item: int) -> bool:
        """Whether line i, which begins no item, belongs to the item above it, which begins at line `item`."""
        if item < 0:
            return False
        end, body = self.items[item]
        if i < end or line[0].isspace():
            return i < end or not self._below(end, i)
        below = self._below(end, i + 1)
        return below == 0 or (below <= body and not _greets(line))


def _numbered(lines: Sequence[tuple[str, bool]]) -> list[list[int]]:
    """The lines of the items of each numbered list that is no part of an earlier one, or of one whose items are titles
    or have words such as "Step 1:"."""
    lists: list[tuple[bool, list[int]]] = []
    open_: dict[tuple[int, str, str], tuple[int, list[int]]] = {}
    for i, (line, fenced) in enumerate(lines):
        match = None if fenced else _NUMBERED.match(line)
        if match is None or not (match["end"] or match["word"] or match["number"] in _CIRCLED):
            if _TITLE.match(line) and not fenced:
                open_ = {key: value for key, value in open_.items() if key[1] or key[2].isalpha()}
            continue
        sign = match["number"]
        kind = next((signs for signs in (_NUMERALS, _CIRCLED, _LETTERS) if sign in signs), "")
        number = kind.index(sign) + 1 if kind else int(sign)
        key = (len(match["indent"]), match["mark"], (match["word"] or kind).casefold())
        before, items = open_.get(key, (1000, []))
        if number > before or number == before == 1:
            items.append(i)
        else:
            items = [i]
            lists.append((bool(match["mark"] or match["word"]), items))
        open_[key] = (number, items)
    outer: list[tuple[bool, list[int]]] = []
    for strong, items in lists:
        if len(items) > 1 and not any(items[0] < there[-1] or (above and not strong) for above, there in outer):
            outer.append((strong, items))
    return [items for _, items in outer]


def _unframed(parts: list[_Part], *, concluding: bool) -> list[_Part]:
    """The parts without an introduction, a closing remark and titles of nothing.

    What may hold a fact stays: an introduction that does belongs to the first step.
    """
    while len(parts) > 1 and parts[-1].is_title and parts[-1].kind == "text":
        parts.pop()
    if len(parts) > 2 and _closes(parts[-1], parts[-2], concluding=concluding):
        parts.pop()
    if len(parts) > 1 and parts[0].kind == "text" and not _TITLE.match(parts[0].lines[0]):
        first, after = parts[:2]
        if _introduces(first, after):
            return parts[1:]
        # "To find the total, we need to add the parts." says what will be done.
        says_how = len(sentences(first.text)) == 1 and _WE.search(first.text) is not None
        if after.kind == "item" and (first.announces or says_how):
            return [_Part("item", [*first.lines, *after.lines], is_title=False), *parts[2:]]
    return parts


def _introduces(part: _Part, after: _Part) -> bool:
    """Whether it only announces: "Sure! Here is the plan:", "To change a tyre, follow these steps:"."""
    *before, last = sentences(part.text)
    if not all(map(_greets, before)):
        return False
    says = (
        names_itself(last)
        or set(terms(last)) <= FUNCTION_WORDS | {"how", "following"}
        or after.kind == "code"
        or len(last.split()) == 1
    )
    return _greets(last) or (part.announces and says)


def _closes(part: _Part, before: _Part, *, concluding: bool) -> bool:
    """Whether a last paragraph is a remark to the reader: "I hope this helps!", "By following these steps, you can"."""
    if part.kind != "text" or _TITLE.match(part.lines[0]) or any(map(str.isdigit, part.text)):
        return False
    if "!" in part.text or "！" in part.text:
        return any(map(_greets, sentences(part.text))) or _greets(part.text)
    listed = before.kind == "item" and names_itself(part.text) and _READER.search(part.text) is not None
    return listed and not concluding


def _in_order(text: str) -> list[str]:
    """A paragraph split at "First, ...", "Second, ..." where it counts its steps by such words."""
    parts = sentences(text)
    begins = [i for i, part in enumerate(parts) if _ORDINAL.match(part)]
    if len(begins) < 2 or not _BEGINS.match(parts[begins[0]]):
        return [text]
    lead = "".join(parts[: begins[0]]).strip()
    edges = [*begins, len(parts)] if not lead or _greets(lead) else [0, *begins, len(parts)]
    return ["".join(parts[start:end]).strip() for start, end in pairwise(edges)]


def program_steps(text: str) -> list[str]:
    """The parts of the programs in a reply; where it holds none, its paragraphs and items."""
    programs = [body for _, body in code_blocks(text) if body.strip()]
    if not programs and not is_code(text):
        return prose_steps(text, concluding=True)
    return [part for program in programs or [text] for part in _program_parts(program)]


def _program_parts(program: str) -> list[str]:
    """The functions and what stands between them; inside a single function the blocks under its comments."""
    lines = program.strip("\n").split("\n")
    free = _outside_strings(lines)
    tops = [i for i in free if lines[i] and not lines[i][0].isspace() and (i == 0 or not lines[i - 1].strip())]
    units = _split(lines, tops)
    if sum(not _IMPORT.match(unit) for unit in units) > 1:
        return units
    indents = [len(line) - len(line.lstrip()) for line in lines]
    base = min((indents[i] for i in free if indents[i] and lines[i].strip()), default=0)
    begins, works = [], False
    for i in free[1:]:
        line, above = lines[i].strip(), lines[i - 1].strip()
        fresh = not above or (line.startswith("#") and not above.startswith("#"))
        if line and indents[i] <= base and fresh and (works or not indents[i]):
            begins.append(i)
        works = works or (line != "" and not _HEAD.match(line))
    return _split(lines, begins)


def _split(lines: Sequence[str], begins: Sequence[int]) -> list[str]:
    edges = sorted({0, *begins, len(lines)})
    parts = ["\n".join(lines[start:end]).strip("\n").rstrip() for start, end in pairwise(edges)]
    return [part for part in parts if part.strip()]


def _outside_strings(lines: Sequence[str]) -> list[int]:
    """The lines that do not begin inside a string of several lines."""
    free, mark = [], ""
    for i, line in enumerate(lines):
        if not mark:
            free.append(i)
        for quotes in _QUOTES.findall(line):
            mark = "" if mark == quotes else mark or quotes
    return free
