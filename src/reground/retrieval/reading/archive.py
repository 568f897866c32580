"""Files that are zip archives of XML: opened and parsed within limits, because a small file can unpack to anything.

Three limits hold for every archive: its number of members, the bytes that are unpacked, and the elements that a parser
holds at once. Entities are never expanded. Whatever breaks one of them, or the format, is `Unreadable`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, TypeVar

from reground.retrieval.encodings import Unreadable

T = TypeVar("T")

MOST_MEMBERS = 20_000
MOST_UNPACKED = 256 << 20
MOST_HELD = 2_000_000
"""Elements of XML in memory at once: some 300 MB."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_ENTRY = b"PK\x01\x02"  # every member of an archive has one in the directory at the end
_HEAD = 65_536
"""Bytes in which declarations are looked for before anything is parsed; others are found by the parser."""
_TICK_ELEMENTS = 20_000


class Archive:
    """The members of an archive by name. Raises Unreadable for one that is damaged, encrypted or a bomb."""

    def __init__(self, content: bytes, tick: Callable[[], None]) -> None:
        if content.startswith(_OLD_OFFICE):
            raise _not_zipped(content)
        if content.count(_ENTRY) > MOST_MEMBERS:
            raise Unreadable(f"is an archive of more than {MOST_MEMBERS} members", kind="large")
        self._left = MOST_UNPACKED
        self._held = 0
        self._tick = tick
        self._zip = _guarded(lambda: zipfile.ZipFile(BytesIO(content)))
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """The content of a member; b"" where there is none."""
        if name not in self.names:
            return b""
        info = self._taken(name)
        return _guarded(lambda: self._zip.read(info))  # no more bytes than it has announced

    def tree(self, name: str) -> Any:
        """A small member as a tree of lxml's; None where it is missing."""
        self._held = 0
        root = None
        for root in self._parsed(name):  # noqa: B007
            pass
        return root

    def elements(self, name: str, *tags: str) -> Iterator[Any]:
        """The elements of a member with these local names, each when it ends, and then emptied; all others stay.

        Elements inside of a wanted one are left to it.
        """
        self._held = 0
        for element in self._parsed(name):
            if local(element) in tags and not inside(element, *tags):
                yield element
                self._held -= sum(1 for _ in element.iter())
                _empty(element)

    def _parsed(self, name: str) -> Iterator[Any]:
        """Every element of a member, when it ends; the root is the last."""
        if name not in self.names:
            return
        from lxml import etree

        info = self._taken(name)
        with _guarded(lambda: self._zip.open(info)) as head:
            if b"<!ENTITY" in _guarded(lambda: head.read(_HEAD)):
                raise _entities()
        parse = etree.iterparse(
            _guarded(lambda: self._zip.open(info)), events=("end",), resolve_entities=False, load_dtd=False,
            no_network=True, huge_tree=False, remove_comments=True, remove_pis=True,
        )  # fmt: skip
        for number, element in enumerate(_guarded_each(parse)):
            if not number:
                _refuse_entities(element)
            self._held += 1
            if self._held > MOST_HELD:
                raise Unreadable(f"holds more than {MOST_HELD} elements of XML at once", kind="large")
            if number % _TICK_ELEMENTS == 0:
                self._tick()
            yield element

    def _taken(self, name: str) -> zipfile.ZipInfo:
        """What the archive says of a member, if that keeps the limits; its size counts against them."""
        info = self._zip.getinfo(name)
        if info.flag_bits & 1:
            raise Unreadable("is protected by a password; save it without one", kind="encrypted")
        if info.file_size > self._left:
            raise Unreadable(f"unpacks to more than {MOST_UNPACKED >> 20} MB", kind="large")
        self._left -= info.file_size
        self._tick()
        return info


def local(element: Any) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def attribute(element: Any, name: str) -> str:
    """The value of an attribute whatever its namespace; "" without one."""
    found = element.get(name)
    if found is None:
        found = next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")
    return str(found)


def inside(element: Any, *names: str) -> bool:
    """Whether an element stands in another of these local names."""
    return any(local(outer) in names for outer in element.iterancestors())


def _empty(element: Any) -> None:
    """Free what an element holds, and the emptied ones before it."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _refuse_entities(element: Any) -> None:
    declared = element.getroottree().docinfo.internalDTD
    if declared is not None and next(declared.iterentities(), None) is not None:
        raise _entities()


def _entities() -> Unreadable:
    return Unreadable("is damaged: it declares entities, which no file of its kind needs", kind="damaged")


def _not_zipped(content: bytes) -> Unreadable:
    if _ENCRYPTED_OFFICE in content:
        return Unreadable("is protected by a password; save it without one", kind="encrypted")
    return Unreadable("is an old Office file under a new name; open it and save it again", kind="old")


def _guarded(work: Callable[[], T]) -> T:
    """The result of the work; what it trips over in a hostile or damaged archive is Unreadable."""
    try:
        return work()
    except (MemoryError, Unreadable):
        raise
    except Exception as error:  # zipfile and zlib raise some ten kinds
        raise Unreadable(f"is damaged: {error or type(error).__name__}") from None


def _guarded_each(parse: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    done = object()
    while (found := _guarded(lambda: next(parse, done))) is not done:
        yield found[1]  # type: ignore[index]
