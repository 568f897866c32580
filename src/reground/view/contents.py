"""The runs and traces of a path and their questions, kept up to date while a run goes on.

Trajectories and scores are files of JSON lines that another process may still be writing. A list shows a glimpse of
each line; a question's whole story is read again when it is opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from reground.core.errors import DataError
from reground.core.files import without_sum
from reground.core.language import Usage
from reground.core.trajectory import Failure, parse_trajectory
from reground.evaluation.compare import budget_label
from reground.evaluation.results import Record, RunFolder, Summary, question_scores, read_run, read_stored
from reground.view.story import story

TRACES = ("trajectories.jsonl", "trajectory.jsonl")
"""The names of trajectory files in the folder of a run or of an answered question."""
_TRIED = 20
"""Lines of a file of which one has to be a trajectory; the others may be damaged."""
_LONGEST = 300
"""Characters of a question or an answer in a list."""


class Replaced(Exception):
    """The file is another one now, or shorter: what was read of it no longer counts."""


class Line(NamedTuple):
    """A line and its place. number: from 1. start: its first byte in the file. ended: whether it has its line end."""

    number: int
    start: int
    data: bytes
    ended: bool


@dataclass
class LineFile:
    """A file of lines; it need not exist yet."""

    path: Path
    _end: int = 0
    _lines: int = 0
    _file: tuple[int, int] | None = field(default=None)

    def new(self) -> Iterator[Line]:
        """The lines that were not given before. A last line without its end is given, and given again until `keep`.

        Raises Replaced, and DataError if the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                self._check(os.fstat(file.fileno()))
                file.seek(self._end)
                for data in file:
                    line = Line(self._lines + 1, self._end, data, data.endswith(b"\n"))
                    if line.ended:
                        self.keep(line)
                    yield line
        except FileNotFoundError:
            if self._file is not None:
                raise Replaced from None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=self.path) from None

    def keep(self, line: Line) -> None:
        """Count a line as given: it is whole."""
        self._end, self._lines = line.start + len(line.data), line.number

    def line(self, start: int, length: int) -> bytes:
        """A line again. Raises DataError."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=self.path) from None

    def _check(self, status: os.stat_result) -> None:
        file = (status.st_dev, status.st_ino)
        if self._file is not None and (file != self._file or status.st_size < self._end):
            raise Replaced
        self._file = file


@dataclass
class Entry:
    """One question in a list.

    row: what the list shows. where: how its source finds it again. number: its place among all questions.
    """

    row: dict[str, Any]
    where: Any
    number: int | None = None


class _Glimpse(BaseModel):
    """What a list shows of a trajectory. The rest of the line is not kept."""

    model_config = ConfigDict(extra="ignore")

    version: Literal[2]
    id: str
    question: str
    method: str
    answer: dict[str, Any] | None = None
    failure: Failure | None = None
    stopped: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0


class Trace:
    """A file of trajectories."""

    kind = "trace"

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.notices: list[str] = []
        self._file = LineFile(path)

    def check(self) -> None:
        """Raise DataError if the file cannot be read, or has no trajectory among its first lines."""
        wrong: DataError | None = None
        filled = (line for line in LineFile(self.path).new() if line.data.strip())
        for line in islice(filled, _TRIED):
            try:
                parse_trajectory(without_sum(line.data))
                return
            except ValueError as error:
                wrong = wrong or DataError(str(error), path=self.path, line=line.number)
        if wrong is not None:
            raise wrong

    def about(self) -> dict[str, Any]:
        """What the page shows of the source."""
        return {"kind": self.kind, "name": self.name, "notices": self.notices}

    def news(self) -> Iterator[Entry]:
        """Entries that are new, or were changed. Raises Replaced, after which the source is read from the start."""
        for line in self._file.new():
            if not line.data.strip():
                continue
            try:
                row = _glimpse(without_sum(line.data))
            except ValueError as error:
                if line.ended:
                    self.notices.append(f"{self.path.name}:{line.number} cannot be read: {_reason(error)}")
                continue
            if not line.ended:
                self._file.keep(line)
            yield self._entry(row, line)

    def _entry(self, row: dict[str, Any], line: Line) -> Entry:
        return Entry(row, (line.start, len(line.data)))

    def open(self, entry: Entry) -> dict[str, Any]:
        """An entry's whole story. Raises DataError."""
        try:
            return story(parse_trajectory(without_sum(self._file.line(*entry.where))))
        except ValueError as error:
            raise DataError(str(error), path=self.path) from None


class RunSource(Trace):
    """A run folder: trajectories with their scores, and a line of the table."""

    kind = "run"

    def __init__(self, folder: RunFolder, name: str) -> None:
        super().__init__(folder.trajectories, name)
        self.folder = folder
        self.records: dict[str, Record] = {}
        self._entries: dict[str, Entry] = {}
        self._scores = LineFile(folder.scores)

    def about(self) -> dict[str, Any]:
        """What the page shows of the run: its configuration, and its results so far."""
        path = self.folder.path / "summary.json"
        summary = read_stored(path, Summary) if path.exists() else None
        if summary is not None and summary.runs != len(self.records):
            summary = None  # of fewer questions than are here by now
        config, records = self.folder.config, self.records.values()
        questions = config.limit or (None if config.ids is None else len(config.ids))
        primary = summary.metrics[config.primary] if summary is not None and config.primary in summary.metrics else None
        values = list(question_scores(config.primary, records).values()) if primary is None else []
        runs = max(1, len(records))
        usage = sum((record.usage for record in records), Usage())
        return super().about() | {
            "done": len(self._entries),
            "task": config.task,
            "method": config.method,
            "budget": budget_label(config.budget.tokens),
            "model": config.model,
            "primary": config.primary,
            "score": primary.mean if primary is not None else fmean(values) if values else None,
            "low": None if primary is None else primary.low,
            "high": None if primary is None else primary.high,
            "expected": None if questions is None else questions * config.repeats,
            "finished": summary is not None and summary.finished,
            "failed": sum(record.failure is not None for record in records),
            "calls": usage.calls / runs,
            "tokens": usage.tokens / runs,
            "usd": None if usage.usd is None else usage.usd / runs,
            "seconds": sum(record.seconds for record in records) / runs,
            "config": config.model_dump(mode="json", exclude={"ids"}),
        }

    def news(self) -> Iterator[Entry]:
        """Entries that are new, or whose scores are."""
        for line in self._scores.new():
            try:
                record = Record.model_validate_json(without_sum(line.data))
            except ValueError as error:
                if line.ended and line.data.strip():
                    self.notices.append(f"{self.folder.scores.name}:{line.number} cannot be read: {_reason(error)}")
                continue
            self.records[record.id] = record
            if (entry := self._entries.get(record.id)) is not None:
                entry.row |= self._scored(record)
                yield entry
        for entry in super().news():
            self._entries[entry.row["id"]] = entry
            yield entry

    def _entry(self, row: dict[str, Any], line: Line) -> Entry:
        record = self.records.get(row["id"])
        return super()._entry(row if record is None else row | self._scored(record), line)

    def _scored(self, record: Record) -> dict[str, Any]:
        short = {"answer": _cut(record.answer)} if record.answer else {}
        return {"score": record.value(self.folder.config.primary), "example": record.example, **short}

    def open(self, entry: Entry) -> dict[str, Any]:
        """The story, with the scores."""
        record = self.records.get(entry.row["id"])
        kept = {"scores", "answer", "cut", "scoring", "metadata"}
        return super().open(entry) | {
            "record": None if record is None else record.model_dump(mode="json", include=kept)
        }


def _glimpse(data: bytes) -> dict[str, Any]:
    """What a list shows of a line. Raises ValueError."""
    glimpse = _Glimpse.model_validate_json(data)
    failure = glimpse.failure
    return {
        "id": glimpse.id,
        "question": _cut(glimpse.question),
        "method": glimpse.method,
        "answer": _cut(str((glimpse.answer or {}).get("text", ""))),
        "failure": None if failure is None else _cut(f"{failure.type}: {failure.message}"),
        "stopped": glimpse.stopped,
        "tokens": glimpse.usage.tokens,
        "calls": glimpse.usage.calls,
        "seconds": glimpse.seconds,
    }


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3].rstrip() + "..."


def _reason(error: ValueError) -> str:
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)


class Contents:
    """The sources of a path and their questions.

    Every question has a number, which is its place in the order of reading, and the change that it was last part of.
    `news` gives what changed since a change that the page has glimpse. epoch: changes when all is read from the start,
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
            raise DataError(f"holds no run and no trajectories{why}", path=place)
        if (alone := self.sources.get(place)) is not None:
            alone.check()

    def _begin(self) -> None:
        self.epoch += 1
        self.sources: dict[Path, Trace] = {}
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
                {"n": number, "source": source, **entry.row}
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


def _source(path: Path) -> Trace | None:
    """The source that a file or a folder is; None if it is none. Raises DataError for a run that cannot be read."""
    name = path.resolve().name
    if not path.is_dir():
        return Trace(path, name)
    if (path / TRACES[1]).is_file():
        return Trace(path / TRACES[1], name)
    if (path / "config.json").is_file():
        return RunSource(read_run(path), name)
    return Trace(path / TRACES[0], name) if (path / TRACES[0]).is_file() else None
