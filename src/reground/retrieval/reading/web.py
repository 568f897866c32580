"""HTML: the main part of a page as a browser shows it, or of a page of the open web the article."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from itertools import islice
from tempfile import TemporaryFile
from typing import Any

from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.result import MOST_ATTRIBUTES, PLAIN, TOO_MANY_ATTRIBUTES, Circumstances, Read
from reground.retrieval.reading.shown import Walk, outline

# Searched and cut with plain string methods and lxml, whose time grows with the length alone. A regular expression with
# two repetitions side by side, or the standard library's HTML parser, takes the square of it on hostile input.
_UNSHOWN = frozenset(("script", "style", "template", "noscript"))
# Whole names alone: min-width:0, line-height:0 and margin-top:-100px are styles of texts that are seen.
_HIDDEN_STYLE = re.compile(
    r"(?<![\w-])(?:display:none|visibility:(?:hidden|collapse)|(?:font-size|opacity|(?:max-)?(?:height|width)):0(?![.\d])"
    r"|(?:text-indent|left|top):-\d{3})"
)
_HEADINGS_TRIED = 20
_MOST_ELEMENTS = 50_000
_DEEPEST = 100  # the page in which an article is looked for; the time for it grows with the product of both
_LONGEST = 10_000_000  # characters of such a page; at a longer text the search for articles stops in silence
_TOO_DEEP = "what lies too deep in its elements, and all behind it, was not read"


def read_html(content: bytes, around: Circumstances) -> Read:
    """The main part of a page. What of the page lies beside it is counted, except for navigation."""
    source, guessed = decode(content, markup=True)
    page, partly = _page(source)
    if page is None:
        return Read("", "")
    around.tick()
    text, _, missing = outline(page, around.tick)
    around.tick()
    return Read(_title(page), text, guessed, partly or missing)


def read_article(content: bytes, around: Circumstances) -> Read:
    """The article of a stranger's page, or where it has none all of it, without what its own markup hides."""
    source, guessed = decode(content, markup=True)
    page, partly = _page(source)
    if page is None:
        return Read("", "")
    source = without_hidden(page)
    around.tick()
    text = "" if len(source) > _LONGEST or _is_large(page) else _article(source)
    around.tick()
    return Read(_title(page), text or Walk().over([page]).text, guessed, partly)


def article_apart(content: bytes, around: Circumstances) -> Read:
    """The article of a page as by `read_article`, in a process of its own that ends with what the tick raises."""
    from reground.retrieval.reading.pdf import FILE_SECONDS, python

    with TemporaryFile() as file, TemporaryFile() as out:
        file.write(content)
        if python(["-m", __name__, str(os.getpid())], file, out, around.tick, FILE_SECONDS):
            raise Unreadable("breaks its reader, or needs too much time or memory")
        out.seek(0)
        return Read(*json.load(out))


def _title(page: Any) -> str:
    titles = (
        Walk().over([element]).text for tag in ("h1", "title") for element in islice(page.iter(tag), _HEADINGS_TRIED)
    )
    return next(filter(None, titles), "")


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


def _page(source: str) -> tuple[Any, str]:
    """The root element of a page, and what of it was not read."""
    from lxml import etree

    if not source.strip():
        return None, ""
    content = source.encode("utf-8", "replace")
    etree.fromstring(content, etree.HTMLParser(encoding="utf-8", target=_Counter(), huge_tree=True))
    # Beyond its ordinary limits, 256 levels and 10 MB of one text, the parser would stop.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    root = etree.fromstring(content, parser)
    return root, _TOO_DEEP if parser.error_log.filter_from_fatals() else ""


class _Counter:
    """Looks at the elements that a parser finds, before it makes a tree of them: Unreadable for too many attributes."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Look at an element."""
        if len(attributes) > MOST_ATTRIBUTES:  # with a tree, the time of lxml would grow with the square
            raise Unreadable(TOO_MANY_ATTRIBUTES)

    def close(self) -> None:
        """The parser asks for it."""


def plain(source: str, *, links: bool = False) -> tuple[str, str]:
    """The text that a browser shows of a page or of a piece of one, with the addresses of `links` or without, and what
    of it was not read."""
    root, partly = _page(source)
    walk = Walk(links=links).over([] if root is None else [root])
    return walk.text, partly or walk.partly


if __name__ == "__main__":  # a page from the input, for `article_apart`
    from reground.retrieval.reading.pdf_program import bind

    bind(int(sys.argv[1]))
    json.dump(read_article(sys.stdin.buffer.read(), PLAIN)[:4], sys.stdout)  # it has no places and no fields
