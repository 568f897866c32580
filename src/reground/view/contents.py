"""What there is to see at a path, kept up to date while a run goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from reground.core.errors import DataError
from reground.evaluation.results import read_run
from reground.view.growing import Replaced
from reground.view.sources import Entry, RunSource, Source, Trace, Trees
from reground.view.trees import tree_files

TRACES = ("trajectories.jsonl", "trajectory.jsonl")
"""The names of trajectory files in the folder of a run or of an answered question."""


class Contents:
    """The sources of a path and their questions.

    Every question has a number, which is its place in the order of reading, and the change that it was last part of.
    `news` gives what changed since a change that the page has seen. epoch: changes when all is read from the start,
    because a file was replaced, and with every new process; numbers of another one mean nothing.
    """

    def __init__(self, place: Path) -> None:
        if not place.exists():
            raise DataError("there is no such file or folder", path=place)
        self.place = place
        self.epoch = time.time_ns() // 1_000_000
        self._begin()
        if not self.sources:
            why = "".join(f"; {notice}" for notice in [*self.notices.values()][:1])
            raise DataError(f"holds no run, no trajectories and no search trees{why}", path=place)
        if (alone := self.sources.get(place)) is not None:
            alone.check()

    def _begin(self) -> None:
        self.epoch += 1
        self.sources: dict[Path, Source] = {}
        self.notices: dict[Path, str] = {}
        self._entries: list[tuple[int, Entry]] = []
        self._changed: list[int] = []
        self._change = 0
        self._find()

    def _find(self) -> None:
        """Find the sources that are new: the path itself, or else the folders in it."""
        if self.place in self.sources:
            return
        if (alone := _source(self.place)) is not None:
            self.sources[self.place] = alone
            return
        for folder in sorted(self.place.glob("*/")):
            try:
                if folder not in self.sources and (source := _source(folder)) is not None:
                    source.check()
                    self.sources[folder] = source
                    self.notices.pop(folder, None)
            except DataError as error:  # such as a question in work, which has no trajectory yet
                self.notices[folder] = str(error)

    def read(self, seconds: float = 0.2) -> bool:
        """Read what is new, for about this long. Returns whether there is more. Raises DataError."""
        until = time.monotonic() + seconds
        try:
            self._find()
            for number, source in enumerate(self.sources.values()):
                for entry in source.news():
                    self._note(number, entry)
                    if time.monotonic() > until:
                        return True
        except Replaced:
            self._begin()
            return True
        return False

    def _note(self, source: int, entry: Entry) -> None:
        if entry.number is None:
            entry.number = len(self._entries)
            self._entries.append((source, entry))
            self._changed.append(0)
        self._change += 1
        self._changed[entry.number] = self._change

    def news(self, epoch: int = 0, since: int = 0) -> dict[str, Any]:
        """What changed since this change of this epoch, as JSON values; everything if the epoch is over."""
        since = since if epoch == self.epoch else 0
        return {
            "place": str(self.place),
            "epoch": self.epoch,
            "change": self._change,
            "sources": [source.about() for source in self.sources.values()],
            "notices": list(self.notices.values()),
            "items": [
                {"n": number, "source": source, **entry.told}
                for number, (source, entry) in enumerate(self._entries)
                if self._changed[number] > since
            ],
        }

    def question(self, number: int) -> dict[str, Any]:
        """A question's whole story, by its number. Raises DataError if there is none, or it cannot be read."""
        if not 0 <= number < len(self._entries):
            raise DataError(f"no question has the number {number}")
        source, entry = self._entries[number]
        return list(self.sources.values())[source].open(entry)

    def __len__(self) -> int:
        return len(self._entries)


def _source(path: Path) -> Source | None:
    """The source that a file or a folder is; None if it is none. Raises DataError for a run that cannot be read."""
    name = path.resolve().name
    if tree_files(path):
        return Trees(path, name)
    if not path.is_dir():
        return Trace(path, name)
    if (path / TRACES[1]).is_file():
        return Trace(path / TRACES[1], name)
    if (path / "config.json").is_file():
        return RunSource(read_run(path), name)
    return Trace(path / TRACES[0], name) if (path / TRACES[0]).is_file() else None
