"""The runs and traces of a path and their questions, kept up to date while a run goes on.

Trajectories and scores are files of JSON lines that another process may still be writing. A list shows a glimpse of
each line; a question's whole story is read again when it is opened: the trajectory with what was marked, changed and
spent.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, BinaryIO, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from reground.core.answers import Answer
from reground.core.errors import DataError
from reground.core.files import read_lines, regular, without_sum
from reground.core.language import Message, Usage
from reground.core.trajectory import Failure, GenerateStep, RetrieveStep, Trajectory, parse_trajectory
from reground.evaluation.compare import budget_label
from reground.evaluation.results import (
    Record,
    RunFolder,
    Summary,
    question_scores,
    read_run,
    read_stored,
    stages_of,
    timed,
)
from reground.text.alignment import changes
from reground.text.excerpts import FUNCTION_WORDS
from reground.text.languages import analyzer, segmenter

Model = TypeVar("Model", bound=BaseModel)

TRACES = ("trajectories.jsonl", "trajectory.jsonl")
"""The names of trajectory files in the folder of a run or of an answered question."""
_HEAD = 20  # lines of a file of which one has to be a trajectory; the others may be damaged
_LONGEST = 300  # characters of a question or an answer in a list


class Replaced(Exception):
    """The file is another one now, or shorter: what was read of it no longer counts."""


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with regular(path).open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None


class LineFile(Generic[Model]):
    """A file whose lines are JSON of one kind, and which another process may be writing; it need not exist yet.

    notices: gets a text for each line that cannot be read.
    """

    def __init__(self, path: Path, kind: type[Model], notices: list[str]) -> None:
        self.path, self._kind, self._notices = path, kind, notices
        self._end = self._lines = 0
        self._file: tuple[int, int] | None = None

    def new(self) -> Iterator[tuple[int, int, Model]]:
        """The contents of the new lines, with their first byte and length.

        A last line without its end is included if it can be read, and otherwise waits. Raises Replaced, and DataError
        if the file cannot be read.
        """
        if not self.path.exists():
            if self._file is not None:
                raise Replaced
            return
        with _reading(self.path) as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            if self._file not in (None, identity) or status.st_size < self._end:
                raise Replaced
            self._file = identity
            file.seek(self._end)
            for data in file:
                value, why = self._parsed(data)
                if value is None and not data.endswith(b"\n"):
                    return
                start, self._end, self._lines = self._end, self._end + len(data), self._lines + 1
                if value is not None:
                    yield start, len(data), value
                elif why:
                    self._notices.append(f"{self.path.name}:{self._lines} cannot be read: {why}")

    def _parsed(self, line: bytes) -> tuple[Model | None, str]:
        """The content of a line, or why it cannot be read; a blank one has none."""
        try:
            return (self._kind.model_validate_json(without_sum(line)) if line.strip() else None), ""
        except ValidationError as error:
            return None, error.errors()[0]["msg"]
        except ValueError as error:
            return None, str(error)


@dataclass
class Entry:
    """One question in a list.

    row: what the list shows. start, length: the line with its trajectory. number: its place among all questions; -1
    before it has one. source: the number of its source. change: the change that it was last part of.
    """

    row: dict[str, Any]
    start: int
    length: int
    number: int = -1
    source: int = 0
    change: int = 0


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

    @property
    def row(self) -> dict[str, Any]:
        failure = self.failure
        claims = [each for each in (self.answer or {}).get("sentences", ()) if each.get("score") is not None]
        return {
            "id": self.id,
            "question": _excerpt(self.question),
            "method": self.method,
            "answer": _excerpt(str((self.answer or {}).get("text", ""))),
            "failure": None if failure is None else _excerpt(f"{failure.type}: {failure.message}"),
            "claims": len(claims),
            "supported": sum(bool(each.get("supports")) for each in claims),
            "stopped": self.stopped,
            "tokens": self.usage.tokens,
            "calls": self.usage.calls,
            "seconds": self.seconds,
        }


class Trace:
    """A file of trajectories."""

    kind = "trace"

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.notices: list[str] = []
        self._lines = LineFile(path, _Glimpse, self.notices)

    def check(self) -> None:
        """Raise DataError if the file cannot be read, or has no trajectory among its first lines."""
        wrong: DataError | None = None
        for number, line in islice(read_lines(self.path, "trajectories"), _HEAD) if self.path.exists() else ():
            try:
                parse_trajectory(without_sum(line))
                return
            except ValueError as error:
                wrong = wrong or DataError(str(error), path=self.path, line=number)
        if wrong is not None:
            raise wrong

    def about(self) -> dict[str, Any]:
        """What the page shows of the source."""
        return {"kind": self.kind, "name": self.name, "notices": self.notices}

    def news(self) -> Iterator[Entry]:
        """Entries that are new, or were changed. Raises Replaced, after which the source is read from the start."""
        for start, length, glimpse in self._lines.new():
            yield Entry(glimpse.row, start, length)

    def open(self, entry: Entry) -> dict[str, Any]:
        """An entry's whole story. Raises DataError."""
        try:
            with _reading(self.path) as file:
                file.seek(entry.start)
                return story(parse_trajectory(without_sum(file.read(entry.length))))
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
        self._scores = LineFile(folder.scores, Record, self.notices)

    def about(self) -> dict[str, Any]:
        """What the page shows of the run: its configuration, and its results so far."""
        path = self.folder.path / "summary.json"
        summary = read_stored(path, Summary) if path.exists() else None
        if summary is not None and summary.runs != len(self.records):
            summary = None  # of fewer questions than are here by now
        config, records = self.folder.config, self.records.values()
        questions = config.limit or (None if config.ids is None else len(config.ids))
        primary = None if summary is None else summary.metrics.get(config.primary)
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
        for _, _, record in self._scores.new():
            self.records[record.id] = record
            if (entry := self._entries.get(record.id)) is not None:
                entry.row |= self._scored(record)
                yield entry
        for entry in super().news():
            if (stored := self.records.get(entry.row["id"])) is not None:
                entry.row |= self._scored(stored)
            self._entries[entry.row["id"]] = entry
            yield entry

    def _scored(self, record: Record) -> dict[str, Any]:
        short = {"answer": _excerpt(record.answer)} if record.answer else {}
        return {"score": record.value(self.folder.config.primary), "example": record.example, **short}

    def open(self, entry: Entry) -> dict[str, Any]:
        """The story, with the scores."""
        record = self.records.get(entry.row["id"])
        fields = {"scores", "answer", "cut", "scoring", "metadata"}
        scores = None if record is None else record.model_dump(mode="json", include=fields)
        return super().open(entry) | {"record": scores}


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3].rstrip() + "..."


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
            raise DataError(f"holds no run and no trajectories{why}", path=place)
        if (alone := self.sources.get(place)) is not None:
            alone.check()

    def _begin(self) -> None:
        self.epoch += 1
        self.sources: dict[Path, Trace] = {}
        self.notices: dict[Path, str] = {}
        self._entries: list[Entry] = []
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
                    if entry.number < 0:
                        entry.number, entry.source = len(self._entries), number
                        self._entries.append(entry)
                    self._change += 1
                    entry.change = self._change
                    if time.monotonic() > until:
                        return True
        except Replaced:
            self._begin()
            return True
        return False

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
                {"n": entry.number, "source": entry.source, **entry.row}
                for entry in self._entries
                if entry.change > since
            ],
        }

    def question(self, number: int) -> dict[str, Any]:
        """A question's whole story, by its number. Raises DataError if there is none, or it cannot be read."""
        if not 0 <= number < len(self._entries):
            raise DataError(f"no question has the number {number}")
        entry = self._entries[number]
        return list(self.sources.values())[entry.source].open(entry)

    def __len__(self) -> int:
        return len(self._entries)


def _source(path: Path) -> Trace | None:
    """The source that a file or a folder is; None if it is none. Raises DataError for a run that cannot be read."""
    name = Path(os.path.realpath(path)).name
    if not path.is_dir():
        return Trace(path, name)
    if (path / TRACES[1]).is_file():
        return Trace(path / TRACES[1], name)
    if (path / "config.json").is_file():
        return RunSource(read_run(path), name)
    return Trace(path / TRACES[0], name) if (path / TRACES[0]).is_file() else None


QUERY, SUPPORT = "q", "s"  # the marks: a word of the query, a sentence that supports the answer

_WORD = re.compile(r"\w+")
_LONGEST_WORD = 200  # characters of a word that is looked at. A longer one is data, such as an encoded picture
_LEAST = 0.4  # the share of words that a revision keeps, of the longer of both texts. Another kind of reply keeps fewer
_FEW = 8  # words of a reply from which on it may be a version of one that its prompt does not hold. A verdict has fewer
_SHORT = 8  # characters of a line that is known only if it is a whole line of an earlier reply
_MARKER = re.compile(r"\[\d+\]")


def story(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as JSON values, with more than its own fields.

    stages: cost by the name of the step. Each step that costs time has its `seconds`; a reply that revises a text has
    `changes`, as `text.alignment.changes` gives them; a passage has the `parts` of `highlights` instead of a text; a
    thought with a draft has `changes`. Tokens' probabilities are left out but for their mean, `logprob`.
    """
    seconds = {id(step): duration for step, duration in timed(trajectory.steps)}
    quotes: dict[str, list[str]] = {}  # what supports the answer, by the passage that it is from
    for sentence in trajectory.answer.sentences if trajectory.answer is not None else ():
        for support in sentence.supports:
            quotes.setdefault(support.passage_id, []).append(support.quote)
    earlier: list[str] = []
    steps = []
    for step in trajectory.steps:
        data = step.model_dump(mode="json", exclude={"replies": {"__all__": {"token_logprobs"}}})
        if id(step) in seconds:
            data["seconds"] = seconds[id(step)]
        if isinstance(step, RetrieveStep):
            for item, passage in zip(data["passages"], step.passages, strict=True):
                del item["text"]
                item["parts"] = highlights(passage.text, step.query, quotes.get(passage.id, ()))
        elif isinstance(step, GenerateStep):
            for item, reply in zip(data["replies"], step.replies, strict=True):
                item["logprob"] = reply.mean_logprob
                if (before := text_before(step.messages, reply.text, earlier)) is not None:
                    item["changes"] = list(changes(before, reply.text.strip()))
            earlier += [reply.text for reply in step.replies]
        steps.append(data)
    return {
        **trajectory.model_dump(mode="json", exclude={"steps", "answer"}),
        "answer": None if trajectory.answer is None else _answer(trajectory.answer),
        "steps": steps,
        "stages": [{"name": name, **stage.model_dump()} for name, stage in stages_of(trajectory).items()],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    data = answer.model_dump(mode="json")
    for item, thought in zip(data["steps"], answer.steps, strict=True):
        if thought.draft is not None and thought.draft.strip() != thought.text.strip():
            item["changes"] = list(changes(thought.draft.strip(), thought.text.strip()))
    for item, sentence in zip(data["sentences"], answer.sentences, strict=True):
        item["supported"] = sentence.supported
    return data


def highlights(text: str, query: str, quotes: Iterable[str]) -> list[tuple[str, str]]:
    """The text in pieces, each with its marks: "", "q", "s" or "qs".

    Words are compared as a search in English compares them: by their stems and without stop words; in writing without
    spaces by pairs of characters. quotes: sentences of the text, with any white space.
    """
    spans = [(start, end, QUERY) for start, end in _matches(text, _terms(query))]
    patterns = (r"\s+".join(map(re.escape, quote.split())) for quote in quotes if quote.strip())
    spans += [(*match.span(), SUPPORT) for pattern in patterns if (match := re.search(pattern, text))]
    edges: dict[int, Counter[str]] = {0: Counter(), len(text): Counter()}
    for start, end, mark in spans:
        edges.setdefault(start, Counter())[mark] += 1
        edges.setdefault(end, Counter())[mark] -= 1
    marks: Counter[str] = Counter()
    pieces = []
    for start, end in pairwise(sorted(edges)):
        marks.update(edges[start])
        pieces.append((text[start:end], "".join(sorted(mark for mark, count in marks.items() if count > 0))))
    return pieces


def _matches(text: str, query: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where the words are that have one of the wanted terms."""
    for word in _WORD.finditer(text) if query else ():
        start, characters = word.start(), word.group()
        if len(characters) > _LONGEST_WORD:
            continue
        terms = _terms_of_word(characters)
        if len(terms) <= 1 or characters.isascii():
            if terms and terms <= query:
                yield word.span()
            continue
        for at in range(len(characters) - 1):  # written without spaces
            if characters[at : at + 2].lower() in query:
                yield start + at, start + at + 2


def _terms(text: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(text) if len(word) <= _LONGEST_WORD and word.lower() not in FUNCTION_WORDS)
    terms = frozenset().union(*map(_terms_of_word, words))
    return frozenset(term for term in terms if len(term) > 1 or not term.isascii() or term.isdecimal())


_analyzer = cache(analyzer)


@cache
def _terms_of_word(word: str) -> frozenset[str]:
    return frozenset(_analyzer("en").analyze(segmenter("en")(word)))


def text_before(messages: Sequence[Message], reply: str, earlier: Sequence[str]) -> str | None:
    """The text that earlier replies wrote and that this reply is a version of; None if there is none.

    It is looked for in the prompt, and where that holds no such text, as when a method asks again with other passages,
    among the replies before.
    """
    replies = [_plain(text) for text in earlier]
    lines = {_plain(line) for text in earlier for line in text.splitlines()}
    blocks = (block for message in messages for block in _blocks(message.content, replies, lines))
    share, best = max(((_overlap(block, reply), block) for block in blocks), default=(0.0, ""))
    if share >= _LEAST:
        return best
    if len(reply.split()) < _FEW:
        return None
    return next((text.strip() for text in reversed(earlier) if _overlap(text, reply) >= _LEAST), None)


def _blocks(content: str, replies: Sequence[str], lines: set[str]) -> Iterator[str]:
    """Runs of lines that earlier replies wrote."""
    block: list[str] = []
    for line in content.splitlines():
        _, _, behind = line.partition(": ")
        text = next((part for part in (line, behind) if _is_reply(_plain(part), replies, lines)), None)
        if text is not None:
            block.append(text)
        elif line.strip() and block:
            yield "\n".join(block).strip()
            block = []
        elif block:
            block.append("")
    if block:
        yield "\n".join(block).strip()


def _is_reply(line: str, replies: Sequence[str], lines: set[str]) -> bool:
    return bool(line) and (line in lines or (len(line) >= _SHORT and any(line in text for text in replies)))


def _plain(text: str) -> str:
    """Without citation markers, which a method may renumber, and with plain white space."""
    return " ".join(_MARKER.sub(" ", text).split())


def _overlap(before: str, after: str) -> float:
    old, new = Counter(before.split()), Counter(after.split())
    return (old & new).total() / max(1, old.total(), new.total())
