"""What a reader is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from typing import NamedTuple, Protocol

MOST_TEXT = 100_000_000
"""Characters of text that are kept of one file."""
ONLY_FIRST = f"only its first {MOST_TEXT // 1_000_000} million characters were read"


class Tick(Protocol):
    """Called now and then in slow work, with the share of the file that is read, from 0 to 1, where it is known."""

    def __call__(self, share: float = 0.0, /) -> None:
        """What it raises ends the reading."""
        ...


def _nothing(share: float = 0.0, /) -> None:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounds the reading of a file.

    tick: see there. language: the ISO 639-1 code of the documents' language, for the recognition of scanned pages.
    """

    tick: Tick = _nothing
    language: str = "en"


PLAIN = Circumstances()


class Read(NamedTuple):
    """What is in a file. guessed: its encoding where that was a guess. partly: what of it was not read, and why."""

    title: str
    text: str
    guessed: str = ""
    partly: str = ""


class Text:
    """A text that grows block by block up to `MOST_TEXT` characters; a blank line stands between blocks."""

    def __init__(self) -> None:
        self._text = StringIO()
        self._room = MOST_TEXT
        self.is_cut = False

    def add(self, block: str, *, goes_on: bool = False) -> bool:
        """Add a block if it holds anything, and of one that does not fit its beginning. False where there is no room
        for more. goes_on: whether it is the next line of the block before."""
        block = block.strip()
        if block and not self.is_cut:
            mark = "" if self._room == MOST_TEXT else "\n" if goes_on else "\n\n"
            self.is_cut = len(mark) + len(block) > self._room
            self._room -= self._text.write((mark + block)[: self._room])
        return not self.is_cut

    def extend(self, blocks: Iterable[str]) -> Text:
        """Add blocks until there is no room."""
        for block in blocks:
            if not self.add(block):
                break
        return self

    @property
    def partly(self) -> str:
        """What was not read, in words; "" where everything was."""
        return ONLY_FIRST if self.is_cut else ""

    def __str__(self) -> str:
        return self._text.getvalue()
