"""HTML: the article of a page, or where it has none all that a browser shows."""

from __future__ import annotations

import logging
import re
from itertools import islice
from typing import Any

from reground.retrieval.encodings import decode
from reground.retrieval.reading.result import Circumstances, Heading, Read

# Searched and cut with plain string methods and lxml, whose time grows with the length alone. A regular expression with
# two repetitions side by side, or the standard library's HTML parser, takes the square of it on hostile input.
_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "title"))
_BLOCKS = frozenset(
    (
        "address", "article", "aside", "blockquote", "br", "caption", "center", "dd", "details", "dialog", "div", "dl",
        "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr",
        "legend", "li", "main", "menu", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "tr", "ul",
    )
)  # fmt: skip
_CELLS = frozenset(("td", "th", "button", "select", "textarea"))
"""Elements that stand side by side with room between them, without a space in the source."""
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_UNSHOWN = frozenset(("script", "style", "template", "noscript"))
# Whole names alone: min-width:0, line-height:0 and margin-top:-100px are styles of texts that are seen.
_HIDDEN_STYLE = re.compile(
    r"(?<![\w-])(?:display:none|visibility:(?:hidden|collapse)|(?:font-size|opacity|(?:max-)?(?:height|width)):0(?![.\d])"
    r"|(?:text-indent|left|top):-\d{3})"
)
_PARTS = frozenset(("section", "article", "div"))
_HEADINGS_TRIED = 20
_LONGEST_HEADING = 200  # characters, and pieces of text
_MOST_ELEMENTS = 50_000
_DEEPEST = 100  # the page in which an article is looked for; the time for it grows with the product of both
_TOO_DEEP = "what lies too deep in its elements, and all behind it, was not read"


def read_html(content: bytes, around: Circumstances) -> Read:
    """The article of a page, or all that a browser shows of it."""
    source, guessed = decode(content, markup=True)
    page, is_vast, partly = _page(source)
    if page is None:
        return Read("", "")
    if around.is_foreign:
        source = without_hidden(page)
    around.tick()
    text = "" if is_vast or _is_large(page) else _article(source)
    around.tick()
    titles = (visible(element) for tag in ("h1", "title") for element in islice(page.iter(tag), _HEADINGS_TRIED))
    return Read(next(filter(None, titles), ""), text or visible(page), guessed, partly)


def without_hidden(root: Any) -> str:
    """Take out of a page the elements that its own markup hides from a reader, and return what is left of its source.

    Text that nobody sees is where instructions to a model are put. Style sheets are not looked at.
    """
    from lxml import etree

    behind: dict[tuple[Any, str], list[str]] = {}  # texts that come together: joined one by one they take the square
    for element in list(root.iter()):
        style = "".join((element.get("style") or "").lower().split())
        is_hidden = element.tag in _UNSHOWN or element.get("hidden") is not None or _HIDDEN_STYLE.search(style)
        parent, before = element.getparent(), element.getprevious()
        if is_hidden and parent is not None:
            place = (parent, "text") if before is None else (before, "tail")
            behind.setdefault(place, []).append(element.tail or "")
            parent.remove(element)
    for (element, name), texts in behind.items():
        setattr(element, name, "".join([getattr(element, name) or "", *texts]))
    return str(etree.tostring(root, method="html", encoding="unicode"))


def _is_large(page: Any) -> bool:
    from lxml import etree

    depth = 0
    for number, (event, _) in enumerate(etree.iterwalk(page, events=("start", "end"))):
        depth += 1 if event == "start" else -1
        if depth > _DEEPEST or number > 2 * _MOST_ELEMENTS:
            return True
    return False


def _article(source: str) -> str:
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it complains of pages without an article
    try:
        return trafilatura.extract(source, include_comments=False, include_tables=True) or ""
    except Exception:  # whatever it trips over, the plain text is still there
        return ""


def parsed(source: str) -> Any:
    """The root element of a page; None where it has none. Entities that a page declares itself mean nothing in HTML."""
    return _page(source)[0]


def _page(source: str) -> tuple[Any, bool, str]:
    """The root element of a page, whether the page is vast, and what of it was not read.

    A vast page is beyond the parser's ordinary limits, 256 levels and 10 MB of one text, at which all that looks for
    articles stops in silence.
    """
    from lxml import etree

    if not source.strip():
        return None, False, ""
    content = source.encode("utf-8", "replace")
    for is_vast in (False, True):
        parser = etree.HTMLParser(
            encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=is_vast
        )
        try:
            root = etree.fromstring(content, parser)
        except etree.XMLSyntaxError:
            if is_vast:
                raise
            continue
        is_whole = not parser.error_log.filter_from_fatals()
        if is_whole or is_vast:
            return root, is_vast, "" if is_whole else _TOO_DEEP
        del root  # two trees at once may be too much memory
    raise AssertionError


def plain(source: str) -> tuple[str, str]:
    """The text that a browser shows of a page or of a piece of one, and what of it was not read."""
    root, _, partly = _page(source)
    return "" if root is None else visible(root), partly


def outline(root: Any) -> tuple[str, list[Heading]]:
    """The text of a page or of an element of it, as it stands in the source, and its headings."""
    from lxml import etree

    pieces: list[str] = []
    length, begun, headings = 0, 0, list[Heading]()
    for event, element in (walk := etree.iterwalk(root, events=("start", "end"))):
        is_start = event == "start"
        if is_start and element.tag in _HIDDEN and element is not root:
            walk.skip_subtree()
            continue
        if is_start and element.tag in _HEADINGS:
            headings.append(Heading(length, int(element.tag[1]), "", _id_of(element)))
            begun = len(pieces)
        elif element.tag in _HEADINGS:
            heading = "".join(pieces[begun : begun + _LONGEST_HEADING])
            headings[-1] = headings[-1]._replace(text=" ".join(heading.split())[:_LONGEST_HEADING])
        # What sets an element off from the text around it.
        gap = "\n" if element.tag in _BLOCKS else " " if element.tag in _CELLS else ""
        follows = element.text if is_start else element.tail if element is not root else None
        pieces.append(gap + (follows or ""))
        length += len(pieces[-1])
    return "".join(pieces), headings


def _id_of(heading: Any) -> str:
    """The id of a heading, of an anchor in it, or of the section that it begins; "" where there is none."""
    if found := heading.get("id"):
        return str(found)
    for inner in islice(heading.iter("a", "span"), _HEADINGS_TRIED):
        if found := inner.get("id") or inner.get("name"):
            return str(found)
    parent = heading.getparent()
    if parent is not None and parent.tag in _PARTS and heading.getprevious() is None:
        return str(parent.get("id") or "")
    return ""


def visible(root: Any) -> str:
    """The text that a browser shows of an element, a block a line."""
    text, _ = outline(root)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
