"""Zip archives of XML, read within limits, and the parts of an Office file that refer to each other.

A small file can unpack to anything, so three limits hold for every archive: its number of members, the bytes that are
unpacked, and the elements that a parser holds at once. Entities are never expanded. Whatever breaks one of them, or the
format, is `Unreadable`.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections import Counter, deque
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import unquote

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.formulas import local
from reground.retrieval.reading.result import MOST_ATTRIBUTES, TOO_MANY_ATTRIBUTES, Tick

MOST_MEMBERS = 20_000
MOST_UNPACKED = 256 << 20
MOST_HELD = 2_000_000  # elements of XML in memory at once: some 300 MB
_OFTEN = 10  # times that a member is opened, after which each time counts more against the bytes
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_ENTRY = b"PK\x01\x02"  # every member of an archive has one in the directory at the end
_HEAD = 65_536  # bytes in which declarations are looked for before anything is parsed; others are found by the parser
_TICK_ELEMENTS = 20_000
LOCKED = "is protected by a password; save it without one"
_ENTITIES = "is damaged: it declares entities, which no file of its kind needs"


class Archive:
    """The members of an archive by name. Raises Unreadable for one that is encrypted or a bomb, and whatever its
    libraries raise for one that is damaged."""

    def __init__(self, content: bytes, tick: Tick) -> None:
        if content.startswith(_OLD_OFFICE) and _ENCRYPTED_OFFICE in content:
            raise Unreadable(LOCKED, kind="encrypted")
        if content.startswith(_OLD_OFFICE):
            raise Unreadable("is an old Office file under a new name; open it and save it again", kind="old")
        if content.count(_ENTRY) > MOST_MEMBERS:
            raise Unreadable(f"is an archive of more than {MOST_MEMBERS} members", kind="large")
        self._left = MOST_UNPACKED
        self._held = 0
        self._opened = Counter[str]()
        self._tick = tick
        self._zip = zipfile.ZipFile(BytesIO(content))
        names = self._zip.namelist()
        self._names = {_folded(name): name for name in reversed(names)} | {name: name for name in names}

    def find(self, name: str) -> str:
        """The member of this name, whatever its case and slashes: some programs write them backwards. "" without
        one."""
        return self._names.get(name) or self._names.get(_folded(name), "")

    def read(self, name: str) -> bytes:
        """The content of a member; b"" where there is none."""
        return self._zip.read(self._member(name)) if self.find(name) else b""  # no more than it has announced

    def found(self, name: str, pattern: re.Pattern[bytes], mark: bytes) -> Iterator[re.Match[bytes]]:
        """Where a pattern of up to a thousand bytes occurs in a member that is not parsed; mark: stands in each."""
        if not self.find(name):
            return
        with self._zip.open(self._member(name, is_again=True)) as member:
            before = b""
            while piece := member.read(1 << 20):
                self._tick()
                piece = before + piece
                end = 0
                for match in pattern.finditer(piece) if mark in piece else ():
                    end = match.end()
                    yield match
                before = piece[max(end, len(piece) - 1000) :]

    def tree(self, name: str) -> Any:
        """A small member as a tree of lxml's; None where it is missing."""
        last = deque(self._parsed(name), maxlen=1)
        return last[0] if last else None

    def elements(self, name: str, *tags: str) -> Iterator[Any]:
        """The elements of a member with these local names, each when it ends, and then emptied; all others stay.

        Elements inside of a wanted one are left to it.
        """
        for element in self._parsed(name):
            if local(element) not in tags or inside(element, *tags):
                continue
            yield element
            self._held -= _emptied(element)
            parent = element.getparent()
            while parent is not None and element.getprevious() is not None:  # the emptied ones before it, and others
                _emptied(parent[0])
                del parent[0]

    def _parsed(self, name: str) -> Iterator[Any]:
        """Every element of a member, when it ends; the root is the last."""
        if not self.find(name):
            return
        from lxml import etree

        info = self._member(name)
        self._held = 0
        with self._zip.open(info) as head:
            if b"<!ENTITY" in head.read(_HEAD):
                raise Unreadable(_ENTITIES)
        parse = etree.iterparse(
            self._zip.open(info), events=("start", "end"), resolve_entities=False, load_dtd=False,
            no_network=True, huge_tree=False, remove_comments=True, remove_pis=True,
        )  # fmt: skip
        for number, (event, element) in enumerate(parse):
            if event == "end":
                yield element
                continue
            declared = None if number else element.getroottree().docinfo.internalDTD
            if declared is not None and next(declared.iterentities(), None) is not None:
                raise Unreadable(_ENTITIES)
            if len(element.attrib) > MOST_ATTRIBUTES:  # before what is in it asks for them, again and again
                raise Unreadable(TOO_MANY_ATTRIBUTES)
            self._held += 1
            if self._held > MOST_HELD:
                raise Unreadable(f"holds more than {MOST_HELD} elements of XML at once", kind="large")
            if self._held % _TICK_ELEMENTS == 0:
                self._tick()

    def _member(self, name: str, *, is_again: bool = False) -> zipfile.ZipInfo:
        """What the archive says of a member that keeps the limits: its size counts, more often where it opens often."""
        info = self._zip.getinfo(self.find(name))
        if info.flag_bits & 1:
            raise Unreadable(LOCKED, kind="encrypted")
        self._opened[info.filename] += 1
        size = info.file_size * max(1, self._opened[info.filename] - _OFTEN)
        if size > self._left:
            raise Unreadable(f"unpacks to more than {MOST_UNPACKED >> 20} MB", kind="large")
        self._left -= 0 if is_again else size
        self._tick()
        return info


def _emptied(element: Any) -> int:
    """How many elements there were; from the innermost, for lxml takes the square of a whole branch with attributes."""
    branch = [*element.iter()]
    for each in branch[:0:-1]:
        each.getparent().remove(each)
    element.clear()
    return len(branch)


def attribute(element: Any, name: str) -> str:
    """The value of an attribute whatever its namespace; "" without one."""
    plain_value = element.get(name)
    if plain_value is not None:
        return str(plain_value)
    return next((str(element.get(key)) for key in element.attrib if key.rpartition("}")[2] == name), "")


def number_in(element: Any, name: str, default: int = -1) -> int:
    """The number in an attribute; the default where there is none, or one that is absurdly long."""
    value = attribute(element, name)
    return int(value) if value.isdecimal() and len(value) < 9 else default


def named(tree: Any, *names: str) -> Iterator[Any]:
    """The elements of a tree with these local names; none of a missing tree."""
    return (each for each in (() if tree is None else tree.iter()) if local(each) in names)


def inside(element: Any, *names: str) -> bool:
    """Whether an element stands in another of these local names."""
    return any(local(outer) in names for outer in element.iterancestors())


def setting(element: Any, name: str) -> str:
    """The attribute `val` of the first element of this name in another; "" without one."""
    return next((attribute(each, "val") for each in named(element, name)), "")


def _folded(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").casefold()


class Relation(NamedTuple):
    """What a part of an Office file refers to. target: a member, or an address outside, such as that of a link."""

    id: str
    kind: str
    target: str


def relations(archive: Archive, part: str) -> list[Relation]:
    """What a part refers to, without members that are missing; "" is the archive as a whole."""
    folder, name = posixpath.split(part.replace("\\", "/"))
    found = []
    for each in named(archive.tree(f"{folder}/_rels/{name}.rels"), "Relationship"):
        target = attribute(each, "Target")
        if attribute(each, "TargetMode") != "External":
            path = posixpath.normpath(posixpath.join("/", folder, target.replace("\\", "/")))
            target = archive.find(path.lstrip("/")) or archive.find(unquote(path))
        if target:
            found.append(Relation(attribute(each, "Id"), attribute(each, "Type").rpartition("/")[2], target))
    return found


def related(archive: Archive, part: str, kind: str, usual: str = "") -> str:
    """The member of a kind that a part refers to, or the one of the usual name beside it; "" without one."""
    targets = (each.target for each in relations(archive, part) if each.kind == kind)
    return next(targets, "") or (beside(archive, part, usual) if usual else "")


def beside(archive: Archive, part: str, name: str) -> str:
    """The member of this name in the folder of a part; "" without one."""
    return archive.find(posixpath.join(posixpath.dirname(part.replace("\\", "/")), name))
