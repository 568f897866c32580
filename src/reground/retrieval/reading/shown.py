"""What a browser shows of a page: its text and headings in one walk, so that a quote has its place in the page.

What the layout says is written out: `10^6` for a raised six, `1/12` for a fraction, the numbers of lists, the rows of
tables as in any other file, and code between fences.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from reground.retrieval.reading.formulas import formula, local, lowered, noted, pictured, raised
from reground.retrieval.reading.numbering import ORDERS, numeral
from reground.retrieval.reading.result import MOST_COLUMNS, MOST_TEXT, ONLY_FIRST, PLAIN, Heading, Table, Text, Tick

_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "title", "rt", "rp"))
"""What is not shown, and reading aids for Chinese characters, which part words."""
_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "br", "caption", "center", "dd", "details", "dialog", "div", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li", "main", "menu", "nav",
    "option", "section", "summary", "tr",
])  # fmt: skip
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_PARAGRAPHS = _HEADINGS | {"p", "pre", "table", "ul", "ol", "dl"}
_CELLS = frozenset(("td", "th", "button", "label", "select", "textarea"))
"""Elements that stand side by side with room between them, without a space in the source."""
_LONGEST_HEADING, _ANCHORS_TRIED = 200, 20  # characters, and pieces of text; anchors in it
_PARTS_OF_PAGES = {  # by the names of elements and of roles
    "main": "main", "article": "article", "nav": "nav", "header": "header", "footer": "footer", "aside": "aside",
    "navigation": "nav", "search": "nav", "banner": "header", "contentinfo": "footer", "complementary": "aside",
    "a": "link", "button": "link",
}  # fmt: skip
_NAVIGATION = ("nav", "header", "footer")
_WORD = re.compile(r"\w+")
_FEW = 40  # words beside the main part that are not worth a notice, such as a copyright and a help for keys


def outline(root: Any, tick: Tick = PLAIN.tick) -> tuple[str, list[Heading], str]:
    """The text of a page's main part, its headings, and what was left out, in words.

    The main part is what the page marks as such, or its articles where less lies beside them, but navigation in it;
    else all but navigation, headers, footers and asides.
    """
    chosen, beside = _main_part(root, tick)
    missing = f"{beside} words beside its main part were not read" if beside else ""
    return chosen.text, chosen.headings, chosen.partly or missing


def _main_part(root: Any, tick: Tick) -> tuple[Walk, int]:
    """The main part of a page, and the number of words beside it that may be worth a notice."""
    for kind in ("main", "article"):
        chosen = Walk(("nav",), tick, links=True).over(_outermost(root, kind))
        beside = Walk((*_NAVIGATION, "link", kind), tick).over([root]).words if chosen.text else 0
        if chosen.text and (kind == "main" or beside <= chosen.words):
            return chosen, beside if beside > _FEW else 0
    everything = body = Walk(_NAVIGATION, tick, links=True).over([root])
    if any(True for _ in _outermost(root, "aside")):
        body = Walk((*_NAVIGATION, "aside"), tick, links=True).over([root])
    if not body.text:
        everything = body = Walk(tick=tick, links=True).over([root])
    return body, everything.words - body.words


def _outermost(root: Any, kind: str) -> Iterator[Any]:
    """The parts of a page of a kind, without those inside of others."""
    from lxml import etree

    for _, element in (walk := etree.iterwalk(root, events=("start",))):
        if _part_of(element) == kind:
            yield element
            walk.skip_subtree()


def _part_of(element: Any) -> str:
    """Which part of a page an element is, by its role or its name; "" for any other."""
    return _PARTS_OF_PAGES.get(element.get("role", ""), "") or _PARTS_OF_PAGES.get(element.tag, "")


def _id_of(heading: Any) -> str:
    """The id of a heading, of an anchor in it, or of the section that it begins; "" where there is none."""
    if found := heading.get("id"):
        return str(found)
    for inner in islice(heading.iter("a", "span"), _ANCHORS_TRIED):
        if found := inner.get("id") or inner.get("name"):
            return str(found)
    parent = heading.getparent()
    if parent is not None and parent.tag in ("section", "article", "div") and heading.getprevious() is None:
        return str(parent.get("id") or "")
    return ""


_GAPS = ("", " ", "\n", "\n\n")
_ADDRESS = re.compile(r"(?:https?|ftp|tel):[^\s<>]{3,200}+|[^\s<>@/:]{1,64}+@[^\s<>@/]{3,200}+")
_NAMES = _HEADINGS | {"code", "tt", "kbd", "samp", "pre", "img"}
_TRIED = 5  # texts or elements that are looked at
_WIDEST = 100  # columns that one cell goes over
_LONGEST_NUMBER = 9
_TICK = 5000  # beginnings and ends of elements between two ticks
_KINDS = {
    **dict.fromkeys(_HEADINGS, "heading"), "ul": "list", "ol": "list", "li": "item", "table": "table", "tr": "row",
    "td": "cell", "th": "cell", "sup": "script", "sub": "script", "pre": "code",
    **dict.fromkeys(("main", "article", "section"), "part"),  # headers, footers and asides in them belong to them
}  # fmt: skip


class _Flow:
    """A text that grows word by word. Of what was said to stand between two words, the widest gap does."""

    def __init__(self, of: Any = None) -> None:
        self.of = of
        self.pieces: list[str] = []
        self.length = 0
        self.gap = ""
        self.mark = ""
        self.is_behind_script = False

    @property
    def text(self) -> str:
        """All that was added."""
        return "".join(self.pieces)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more."""
        return self.length >= MOST_TEXT

    def apart(self, gap: str) -> None:
        """Let what follows stand apart from what was."""
        self.gap = max(self.gap, gap, key=_GAPS.index)

    def say(self, text: str) -> None:
        """Add a text of the source, whose white space is one blank."""
        words = " ".join(text.split())
        if text[:1].isspace():
            self.apart(" ")
        if words:
            self.put(words)
        if words and text[-1:].isspace():
            self.apart(" ")

    def put(self, text: str) -> None:
        """Add a text as it is. A number behind a raised one is another."""
        if self.is_behind_script and text[:1].isdigit():
            self.apart(" ")
        piece = ((self.gap if self.length else "") + self.mark + text)[: MOST_TEXT - self.length]
        self.pieces.append(piece)
        self.length += len(piece)
        self.gap = self.mark = ""
        self.is_behind_script = False

    def base(self) -> str:
        """The character that the next one follows without a gap; "" where there is none."""
        return self.pieces[-1][-1:] if self.pieces and not self.gap else ""


class _Rows:
    """The rows of a table. A cell that goes down stands in each, one that goes to the right once. text: is told what
    was not read."""

    def __init__(self) -> None:
        self.text = Text()
        self.table = Table(self.text)
        self._row: dict[int, str] = {}
        self._below: dict[int, tuple[int, str]] = {}
        self._next = 0

    def begin(self) -> None:
        """Begin a row."""
        self._row = {place: text for place, (_, text) in self._below.items()}
        self._below = {place: (left - 1, text) for place, (left, text) in self._below.items() if left > 1}
        self._next = 0

    def add(self, cell: Any, text: str) -> None:
        """Add a cell to the row."""
        while self._next in self._row:
            self._next += 1
        down = _number(cell.get("rowspan"), 1)
        across = min(max(_number(cell.get("colspan"), 1), 1), _WIDEST)
        for place in range(self._next, min(self._next + across, MOST_COLUMNS + 1)):  # one too many, so that it is said
            self._row[place] = text
            if down > 1:
                self._below[place] = (down - 1, text)
            text = ""

    def lines(self) -> Sequence[str]:
        """The lines that are certain with the row that was begun."""
        return self.table.lines([self._row.get(place, "") for place in range(max(self._row, default=-1) + 1)])


def _number(written: str | None, otherwise: int) -> int:
    """A number of an attribute."""
    try:
        return int((written or "")[:_LONGEST_NUMBER])
    except ValueError:
        return otherwise


class _List:
    """A list of a page, which numbers its items or not."""

    def __init__(self, element: Any) -> None:
        self._kind = (element.get("type") or "") if element.tag == "ol" else None
        self._step = 1 if element.get("reversed") is None else -1
        self._next = _number(element.get("start"), 1 if self._step > 0 else sum(each.tag == "li" for each in element))

    def mark(self, item: Any) -> str:
        """What stands before an item."""
        if self._kind is None:
            return "- "
        number = _number(item.get("value"), self._next)
        self._next = number + self._step
        return f"{numeral(number, ORDERS.get(self._kind, ''))}. "


class Walk:
    """Goes through elements once, and writes what a browser shows of them.

    without: parts of the page that are passed over, except for the header, footer or aside of a section or article.
    links: whether addresses outside of the page stand behind their links, once each.
    """

    def __init__(self, without: Container[str] = (), tick: Tick = PLAIN.tick, *, links: bool = False) -> None:
        self._addresses: set[str] | None = set() if links else None
        self.headings: list[Heading] = []
        self._partly = ""
        self._without = without
        self._tick = tick
        self._within = 0
        self._flows = [_Flow()]  # of the page, and of cells and raised texts that are being written
        self._root: Any = None
        self._passed: Any = None
        self._begun = 0
        self._code: tuple[Any, list[str]] | None = None
        self._rows: tuple[Any, _Rows] | None = None
        self._lists: list[_List] = []

    @property
    def text(self) -> str:
        """What was written."""
        return self._flows[0].text

    @property
    def words(self) -> int:
        """How many words were written."""
        return sum(1 for _ in _WORD.finditer(self.text))

    @property
    def partly(self) -> str:
        """What was not written, in words."""
        return ONLY_FIRST if self._flows[0].is_full else self._partly

    def over(self, elements: Iterable[Any]) -> Walk:
        """Write the elements, one under the other."""
        from lxml import etree

        for self._root in elements:
            for number, (event, element) in enumerate(walk := etree.iterwalk(self._root, events=("start", "end"))):
                if number % _TICK == 0:
                    self._tick()
                if event == "end":
                    self._leave(element)
                elif not self._enter(element):
                    self._passed = element
                    walk.skip_subtree()
            self._flows[0].apart("\n\n")
        return self

    def _enter(self, element: Any) -> bool:
        """Begin an element. False where what is in it is passed over, or written."""
        tag = local(element)
        if element is not self._root and self._is_passed(element, tag):
            return False
        self._apart(tag)
        if tag == "math":
            self._say(formula(element))
            return False
        if self._code is None:
            self._begin(element, _KINDS.get(tag, ""))
            self._say(_shown_by(element, tag))
        self._say(element.text)
        return True

    def _leave(self, element: Any) -> None:
        tag = local(element)
        if element is not self._passed and (self._code is None or self._code[0] is element):
            self._end(element, _KINDS.get(tag, ""))
        if tag == "a" and self._addresses is not None and self._code is None:
            self._add_address(element, self._addresses)
        self._apart(tag)
        if element is not self._root:
            self._say(element.tail)

    def _is_passed(self, element: Any, tag: str) -> bool:
        is_tool = tag == "button" and (self._code is not None or element.getparent().tag in _HEADINGS)
        if is_tool or tag in _HIDDEN or _is_sign(element, tag):
            return True
        part = _part_of(element)
        if part in self._without:
            is_own = self._within and part in ("header", "footer", "aside")
            return not is_own and not (part == "header" and next(element.iter("h1"), None) is not None)
        before = element.getprevious() if element.get("aria-hidden") == "true" else None
        return before is not None and next(before.iter("math"), None) is not None  # its picture comes for the eye

    def _begin(self, element: Any, kind: str) -> None:
        match kind:
            case "heading":
                self._begin_heading(element)
            case "list":
                self._lists.append(_List(element))
            case "item":
                self._flows[-1].mark += self._lists[-1].mark(element) if self._lists else "- "
            case "table" if not _is_layout(element):
                self._rows = (element, _Rows())
            case "row" if self._rows:
                self._rows[1].begin()
            case "cell" if self._rows:
                self._flows.append(_Flow(element))
            case "script":
                self._flows.append(_Flow(element))
            case "code" if len(self._flows) == 1:
                self._code = (element, [])
            case "part":
                self._within += 1

    def _end(self, element: Any, kind: str) -> None:
        match kind:
            case "heading":
                self._end_heading(element)
            case "list":
                self._lists.pop()
            case "item":
                self._flows[-1].mark = ""
            case "table" if self._rows and self._rows[0] is element:
                self._add_rows(self._rows[1].table.end())
                self._partly = self._partly or self._rows[1].text.partly
                self._rows = None
            case "row" if self._rows and not self._flows[-1].is_full:
                self._add_rows(self._rows[1].lines())
            case "cell" | "script" if self._flows[-1].of is element:
                self._end_piece(element, kind, self._flows.pop().text)
            case "code" if self._code:
                self._end_code("".join(self._code[1]).strip("\n").rstrip())
            case "part":
                self._within -= 1

    def _begin_heading(self, element: Any) -> None:
        flow, level = self._flows[-1], int(local(element)[1])
        self.headings.append(Heading(self._flows[0].length, level, "", _id_of(element)))
        self._begun = len(flow.pieces)
        if element is not self._root:
            flow.mark = f"{'#' * level} {flow.mark.replace('- ', '')}"

    def _end_heading(self, element: Any) -> None:
        flow, heading = self._flows[-1], self.headings[-1]
        said = "".join(flow.pieces[self._begun : self._begun + _LONGEST_HEADING]).split()
        text = " ".join(said[1:] if said[:1] == ["#" * heading.level] else said)
        self.headings[-1] = heading._replace(text=text[:_LONGEST_HEADING])
        flow.mark = ""

    def _add_rows(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._flows[-1].apart("\n\n")
            self._flows[-1].put(line)

    def _end_piece(self, element: Any, kind: str, text: str) -> None:
        """Put a cell into its row, or a raised or lowered text behind what it belongs to."""
        if kind == "cell" and self._rows:
            self._rows[1].add(element, text)
            return
        flow, following = self._flows[-1], element.getnext()
        is_fraction = (element.tail or "").strip() in ("/", "\u2044") and following is not None
        if is_fraction and local(following) == "sub":
            flow.apart(" " if flow.base().isdigit() else "")
            flow.put(text)
        elif text:
            is_note = any(local(each) == "a" for each in (element.getparent(), *islice(element.iter(), _TRIED)))
            write = lowered if local(element) == "sub" else noted if is_note else raised
            flow.put(write(text, flow.base()))
            flow.is_behind_script = True

    def _end_code(self, code: str) -> None:
        self._code = None
        flow = self._flows[-1]
        if code:
            if flow.mark:  # the number of an item, for a fence begins its line
                flow.put("")
                flow.apart("\n")
            flow.apart("\n\n")
            fence = "~~~" if "```" in code else "```"
            flow.put(f"{fence}\n{code}\n{fence}")

    def _add_address(self, link: Any, known: set[str]) -> None:
        """Put an address behind its link, unless the link is a name in code or a part of a heading."""
        address = (link.get("href") or "").strip().removeprefix("mailto:").partition("?subject=")[0]
        is_outside = _ADDRESS.fullmatch(address) and address not in known
        if is_outside and not any(local(each) in _NAMES for each in (*islice(link.iterancestors(), _TRIED), *link)):
            known.add(address)
            text = "".join(islice(link.itertext(), _LONGEST_HEADING))
            self._say(f" ({address})" if text.strip() and address.rstrip("/") not in text else "")

    def _apart(self, tag: str) -> None:
        """Set what follows apart from what was, as far as an element of this name does."""
        is_inner = tag in ("ul", "ol") and self._lists
        gap = "\n\n" if tag in _PARAGRAPHS and not is_inner else "\n" if tag in _BLOCKS or is_inner else ""
        if self._code is None:
            self._flows[-1].apart(gap or (" " if tag in _CELLS else ""))
        elif gap and self._code[1] and not self._code[1][-1].endswith("\n"):
            self._code[1].append("\n")

    def _say(self, text: str | None) -> None:
        if not text:
            return
        if self._code is None:
            self._flows[-1].say(text)
        else:
            self._code[1].append(text)


def _shown_by(element: Any, tag: str) -> str:
    """What an element shows that holds no text: a field of a form, a choice that was made, a picture but in a link."""
    kind = (element.get("type") or "").lower()
    if tag == "option":
        return "" if element.get("selected") is None else "[x] "
    if tag == "img" and element.getparent() is not None and element.getparent().tag != "a":
        return f" {pictured(element.get('alt') or '')} "
    is_tab = kind == "radio" and element.get("value") is None
    if tag != "input" or is_tab or kind in ("hidden", "password", "image"):
        return ""
    if kind in ("checkbox", "radio"):
        return " [ ] " if element.get("checked") is None else " [x] "
    return f" {element.get('value') or element.get('placeholder') or ''} "


def _is_sign(element: Any, tag: str) -> bool:
    """Whether an element is a sign that leads to its own heading, such as ¶."""
    text = "".join(islice(element.itertext(), _TRIED)).strip() if tag == "a" else ""
    return bool(text) and (element.get("href") or "").startswith("#") and not any(map(str.isalnum, text))


def _is_layout(table: Any) -> bool:
    """Whether a table only puts things beside each other."""
    if next(islice(table.iter("table", "pre", *_HEADINGS), 1, None), None) is not None:
        return True
    return not any(sum(each.tag in ("td", "th") for each in row) > 1 for row in table.iter("tr"))
