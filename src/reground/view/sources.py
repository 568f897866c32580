"""Where questions come from: the runs, traces and search trees of a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Literal
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, ValidationError

from reground.core.errors import DataError
from reground.core.files import without_sum
from reground.core.language import Usage
from reground.core.trajectory import Failure, parse_trajectory
from reground.evaluation.compare import budget_label
from reground.evaluation.results import Record, RunFolder, Summary, question_scores, read_stored
from reground.treesearch.files import TreeFileError, read_tree
from reground.view.growing import Growing, Line, Replaced
from reground.view.story import story
from reground.view.trees import flat_tree, said, tree_files

_TRIED = 20
"""Lines of a file of which one has to be a trajectory; the others may be damaged."""
_LONGEST = 300
"""Characters of a question or an answer in a list."""


@dataclass
class Entry:
    """One question in a list.

    told: what the list shows. where: how its source finds it again. number: its place among all questions.
    """

    told: dict[str, Any]
    where: Any
    number: int | None = None


class _Said(BaseModel):
    """The text of an answer."""

    model_config = ConfigDict(extra="ignore")

    text: str = ""


class _Glimpse(BaseModel):
    """What a list shows of a trajectory. The rest of the line is not looked at, so a thousand take a moment."""

    model_config = ConfigDict(extra="ignore")

    version: Literal[2]
    id: str
    question: str
    method: str
    answer: _Said | None = None
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
        self._file = Growing(path)

    def check(self) -> None:
        """Raise DataError if the file cannot be read, or has no trajectory among its first lines."""
        wrong: DataError | None = None
        filled = (line for line in Growing(self.path).new() if line.data.strip())
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
                told = _glimpse(without_sum(line.data))
            except ValueError as error:
                if line.ended:
                    self.notices.append(f"{self.path.name}:{line.number} cannot be read: {_reason(error)}")
                continue
            if not line.ended:
                self._file.keep(line)
            yield self._entry(told, line)

    def _entry(self, told: dict[str, Any], line: Line) -> Entry:
        return Entry(told, (line.start, len(line.data)))

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
        self._scores = Growing(folder.scores)
        self._summary = _Summary(folder)
        self._changes = 0
        self._told: tuple[object, dict[str, Any]] = (None, {})

    def about(self) -> dict[str, Any]:
        """What the page shows of the run: its configuration, and its results so far."""
        summary = self._summary.of(len(self.records))
        state = (self._changes, id(summary))
        if state != self._told[0]:
            self._told = (state, self._results(summary))
        return {**super().about(), **self._told[1], "done": len(self._entries)}

    def _results(self, summary: Summary | None) -> dict[str, Any]:
        config, records = self.folder.config, self.records.values()
        questions = config.limit or (None if config.ids is None else len(config.ids))
        primary = summary.metrics[config.primary] if summary is not None and config.primary in summary.metrics else None
        values = list(question_scores(config.primary, records).values()) if primary is None else []
        runs = max(1, len(records))
        usage = sum((record.usage for record in records), Usage())
        return {
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
            self._changes += 1
            if (entry := self._entries.get(record.id)) is not None:
                entry.told |= self._scored(record)
                yield entry
        for entry in super().news():
            self._entries[entry.told["id"]] = entry
            yield entry

    def _entry(self, told: dict[str, Any], line: Line) -> Entry:
        record = self.records.get(told["id"])
        return super()._entry(told if record is None else told | self._scored(record), line)

    def _scored(self, record: Record) -> dict[str, Any]:
        short = {"answer": _cut(record.answer)} if record.answer else {}
        return {"score": record.value(self.folder.config.primary), "example": record.example, **short}

    def open(self, entry: Entry) -> dict[str, Any]:
        """The story, with the scores."""
        record = self.records.get(entry.told["id"])
        kept = {"scores", "answer", "cut", "scoring", "metadata"}
        return super().open(entry) | {
            "record": None if record is None else record.model_dump(mode="json", include=kept)
        }


@dataclass
class _Summary:
    """A run's summary.json, read again when it was replaced."""

    folder: RunFolder
    _read: Summary | None = None
    _when: int = field(default=-1)

    def of(self, runs: int) -> Summary | None:
        """The summary, if it is one of as many questions."""
        path = self.folder.path / "summary.json"
        try:
            when = path.stat().st_mtime_ns
        except OSError:
            return None
        if when != self._when:
            self._when, self._read = when, read_stored(path, Summary, "a summary")
        return self._read if self._read is not None and self._read.runs == runs else None


class Trees:
    """The search trees of a training's folder, or one alone."""

    kind = "trees"

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.notices: list[str] = []
        self._seen: dict[Path, int] = {}

    def check(self) -> None:
        """Raise DataError if there is one tree alone and it cannot be read."""
        if self.path.is_file():
            self._read(self.path)

    def about(self) -> dict[str, Any]:
        """What the page shows of the source."""
        return {"kind": self.kind, "name": self.name, "notices": self.notices}

    def news(self) -> Iterator[Entry]:
        """The trees that are new. A tree that was replaced makes all of them new."""
        for file in tree_files(self.path):
            try:
                when = file.stat().st_mtime_ns
            except FileNotFoundError:
                raise Replaced from None
            if self._seen.get(file) == when:
                continue
            if file in self._seen:
                raise Replaced
            self._seen[file] = when
            try:
                tree = self._read(file)
            except DataError as error:
                self.notices.append(str(error))
                continue
            name = tree.metadata.get("example") or unquote(file.stem)
            score, visits = tree.root.mean, tree.root.visits
            told = {
                "id": str(name),
                "question": _cut(said(tree.root)),
                "score": score,
                "visits": visits,
                "scored": True,
            }
            yield Entry(told | {"stopped": tree.stopped}, file)

    def open(self, entry: Entry) -> dict[str, Any]:
        """A whole tree. Raises DataError."""
        return {"question": entry.told["question"], "id": entry.told["id"], "tree": flat_tree(self._read(entry.where))}

    def _read(self, file: Path) -> Any:
        try:
            return read_tree(file)
        except TreeFileError as error:
            raise DataError(str(error)) from None


Source = Trace | Trees


def _glimpse(data: bytes) -> dict[str, Any]:
    """What a list shows of a line. Raises ValueError."""
    try:
        seen = _Glimpse.model_validate_json(_without_steps(data))
    except ValueError:
        seen = _Glimpse.model_validate_json(data)
    failure = seen.failure
    return {
        "id": seen.id,
        "question": _cut(seen.question),
        "method": seen.method,
        "answer": _cut(seen.answer.text) if seen.answer is not None else "",
        "failure": None if failure is None else _cut(f"{failure.type}: {failure.message}"),
        "stopped": seen.stopped,
        "tokens": seen.usage.tokens,
        "calls": seen.usage.calls,
        "seconds": seen.seconds,
    }


def _without_steps(data: bytes) -> bytes:
    """A line without its steps, which are most of it, cut out unread: that takes a tenth of the time.

    Between quotation marks no mark stands without a backslash, so what is looked for is no part of a text. If it
    belongs to an object within another one, the rest is no JSON.
    """
    start, end = data.find(b',"steps":['), data.rfind(b'],"answer":')
    return data if start < 0 or end < start else data[: start + len(b',"steps":[')] + data[end:]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3].rstrip() + "..."


def _reason(error: ValueError) -> str:
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
