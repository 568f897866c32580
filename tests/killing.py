"""Killing a process at a random moment of its work: a bell says when, its journals what was paid."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

_KEY = re.compile(r"\bk[0-9a-f]{16}\b")


def key_of(body: dict[str, Any]) -> str:
    """What tells one call of a model from another: its messages and its seed."""
    asked = json.dumps([body["messages"], body.get("seed")], sort_keys=True)
    return f"k{hashlib.sha256(asked.encode()).hexdigest()[:16]}"


class Bell:
    """A server's script. Every reply holds its call's key; `rung` is set after as many replies as were asked for.

    say: the rest of a reply's text, from the request's body and its key. counts: how often each call was answered.
    """

    def __init__(self, say: Callable[[dict[str, Any], str], str] = lambda body, key: "") -> None:
        self.say = say
        self.counts: Counter[str] = Counter()
        self.rung = asyncio.Event()
        self._left = 0

    def ring_after(self, replies: int) -> None:
        """Ring after this many more replies."""
        self._left = replies
        self.rung.clear()

    def strike(self) -> None:
        """One more reply is given."""
        self._left -= 1
        if self._left == 0:
            self.rung.set()

    def __call__(self, body: dict[str, Any]) -> str:
        key = key_of(body)
        self.counts[key] += 1
        self.strike()
        return f"re {key} {self.say(body, key)}".strip()


async def rung_or_ended(bell: Bell, process: asyncio.subprocess.Process) -> None:
    """Return when the bell has rung or the process has ended."""
    waits = [asyncio.create_task(bell.rung.wait()), asyncio.create_task(process.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


def effects(journal: Path) -> list[tuple[tuple[str, str, str, int], str]]:
    """What a journal holds: place and result. It is read from a copy: whoever opens a journal mends it."""
    with tempfile.TemporaryDirectory() as folder:
        for file in journal.parent.glob(journal.name + "*"):
            shutil.copyfile(file, Path(folder) / file.name)
        with closing(sqlite3.connect(Path(folder) / journal.name)) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name='effects'").fetchone():
                return []
            rows = db.execute("SELECT run, question, span, ordinal, result FROM effects").fetchall()
    return [(tuple(place), result) for *place, result in rows]


def recorded(folder: Path) -> Iterator[str]:
    """The key of every reply in the journals below a folder. Raises AssertionError where a place was recorded twice."""
    for journal in folder.rglob("journal.*"):
        if journal.suffix in (".sqlite", ".db"):
            found = effects(journal)
            places = [place for place, _ in found]
            assert len(set(places)) == len(places), "an effect was recorded twice"
            for _, result in found:
                yield from _KEY.findall(result)
