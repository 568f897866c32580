"""Documents, and the files that they are read from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from reground.retrieval.encodings import Unreadable
from reground.retrieval.kinds import JSONL_SUFFIXES, MAILBOX_SUFFIXES, largest

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a corpus, before it is cut into passages.

    id: unique in the corpus; a file's path relative to the corpus folder, or the id that a JSONL line gives.
    url: where a reader may find it; a relative path for files. source: the file it was read from.
    guessed: its encoding, if that was a guess. partly: what of its file was not read, and why.
    """

    id: str
    title: str
    text: str
    url: str | None = None
    source: str = ""
    guessed: str = ""
    partly: str = ""

    @property
    def key(self) -> int:
        """63 bits of a hash of the id: how an index refers to a document."""
        return _hash(self.id)

    @property
    def content(self) -> int:
        """63 bits of a hash of everything that an index keeps of the document."""
        return _hash(self.id, self.title, self.url or "", self.text)


def _hash(*texts: str) -> int:
    """63 bits over texts with a zero between them, taken piece by piece, for a text may be large."""
    digest = hashlib.blake2b(digest_size=8)
    for number, text in enumerate(texts):
        digest.update(b"\0" if number else b"")
        for start in range(0, len(text), _PIECE):
            digest.update(text[start : start + _PIECE].encode())
    return int.from_bytes(digest.digest(), "big") >> 1


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file of a corpus. `name` is its path relative to the corpus folder, with forward slashes.

    suffix: the one that the name ought to have, where it does not say what the file is (`sniffing.known_as`).
    """

    path: Path
    name: str
    size: int
    mtime_ns: int
    suffix: str = ""

    @property
    def typed(self) -> str:
        """A name that says what the file is."""
        return self.name + self.suffix

    @property
    def is_jsonl(self) -> bool:
        """Whether it holds one document a line, rather than one in all."""
        return self.typed.lower().endswith(JSONL_SUFFIXES)

    @property
    def holds_several(self) -> bool:
        """Whether it holds several documents, which are read one at a time."""
        return self.typed.lower().endswith(JSONL_SUFFIXES + MAILBOX_SUFFIXES)

    def read(self) -> bytes:
        """All that is in it. Raises OSError, and Unreadable where that is too much."""
        most = largest(self.typed)
        with self.path.open("rb") as file:
            content = file.read() if most is None else file.read(most + 1)
        if most is not None and len(content) > most:
            raise too_large(len(content), most)
        return content


def too_large(size: int, most: int) -> Unreadable:
    """What to say of a file of `size` bytes where at most `most` are read."""
    mb = 1 << 20
    return Unreadable(f"is too large: {size / mb:.0f} MB, and at most {most // mb} MB are read", kind="large")
