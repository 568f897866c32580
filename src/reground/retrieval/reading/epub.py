"""EPUB: the chapters of a book, in the order of reading."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote

from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.archive import Archive, attribute, local
from reground.retrieval.reading.html import plain
from reground.retrieval.reading.result import Circumstances, Read, Text

_LARGEST_CHAPTER = 32 << 20
_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(content: bytes, around: Circumstances) -> Read:
    """A book's title and the text of its chapters."""
    archive = Archive(content, around.tick)
    container = archive.tree("META-INF/container.xml")
    root = _first(container, "rootfile")
    package = attribute(root, "full-path") if root is not None else ""
    book = archive.tree(package)
    if book is None:
        raise Unreadable("is damaged: it holds no book", kind="damaged")
    chapters = _chapters(book, posixpath.dirname(package))
    locked = _locked(archive)
    text, partly = Text(), ""
    for chapter in chapters:
        if chapter in locked:
            continue
        said, missing = _text(archive, chapter)
        partly = partly or missing
        if not text.add(said):
            break
    if locked.intersection(chapters) and not str(text):
        raise Unreadable("is protected against copying", kind="encrypted")
    title = _first(book, "title")
    return Read("" if title is None else title.text or "", str(text), partly=text.partly or partly)


def _text(archive: Archive, chapter: str) -> tuple[str, str]:
    """The text of a chapter, and what of it was not read."""
    content = archive.read(chapter)
    if len(content) > _LARGEST_CHAPTER:
        raise Unreadable(f"has a chapter of more than {_LARGEST_CHAPTER >> 20} MB", kind="large")
    return plain(decode(content, markup=True).text)


def _chapters(book: Any, folder: str) -> list[str]:
    """The pages of a book in the order of reading, which its spine gives."""
    items = {
        attribute(each, "id"): posixpath.normpath(posixpath.join(folder, unquote(attribute(each, "href"))))
        for each in book.iter()
        if local(each) == "item" and attribute(each, "media-type") in _PAGES and not _is_contents(each)
    }
    order = [attribute(each, "idref") for each in book.iter() if local(each) == "itemref"]
    return list(dict.fromkeys(items[id_] for id_ in order if id_ in items)) or list(items.values())


def _is_contents(item: Any) -> bool:
    """Whether a page is the book's list of chapters."""
    return "nav" in attribute(item, "properties").split()


def _locked(archive: Archive) -> set[str]:
    """The parts that are encrypted; fonts often are, and do no harm."""
    tree = archive.tree("META-INF/encryption.xml")
    parts = [] if tree is None else [each for each in tree.iter() if local(each) == "CipherReference"]
    return {posixpath.normpath(unquote(attribute(each, "URI"))) for each in parts}


def _first(tree: Any, name: str) -> Any:
    return None if tree is None else next((each for each in tree.iter() if local(each) == name), None)
