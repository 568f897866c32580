"""A conversation as a file: a line for each question and each answer, so that it can be taken up after any end."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reground.core.errors import ConfigurationError
from reground.core.files import append_line, read_lines, set_aside, without_sum
from reground.core.language import Message, Text, Usage, Value
from reground.core.paths import conversations_dir, expanded

if TYPE_CHECKING:
    from reground.app.result import Result


class Line(Value):
    """A line of the file.

    kind: "stopped" closes a question that got no answer; after "new" the conversation begins again. text: the question,
    the answer, or why there is none. when: ISO 8601 in UTC.
    """

    kind: Literal["question", "answer", "stopped", "new"]
    text: Text = ""
    when: str
    trajectory: Text | None = None
    usage: Usage | None = None
    seconds: float | None = None


class Transcript:
    """The conversation in a file. A question is written before it is asked.

    turns: the questions that were answered, and their answers. asked: every question. unanswered: the question that the
    end of the process cut short. usage, seconds: the sum over all answers. notices: what could not be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turns: list[Message] = []
        self.asked: list[str] = []
        self.unanswered: str | None = None
        self.usage, self.seconds = Usage(), 0.0
        self.notices: list[str] = []
        if path.exists():
            _refuse_another(path)
            self.notices = set_aside(path, _read)
            for _, line in read_lines(path, "the conversation"):
                self._take(_read(without_sum(line)))

    def ask(self, question: str) -> list[Message]:
        """Write a question down, and return the conversation up to it. Raises StorageError."""
        self._write(Line(kind="question", text=question, when=_now()))
        return [*self.turns, Message(role="user", content=question)]

    def answer(self, result: Result) -> None:
        """Write the answer down. Raises StorageError."""
        path = str(result.trajectory_path)
        self._write(
            Line(
                kind="answer",
                text=result.text,
                when=_now(),
                trajectory=path,
                usage=result.usage,
                seconds=result.seconds,
            )
        )

    def stop(self, why: str) -> None:
        """Give the last question up, if it has no answer. Raises StorageError."""
        if self.unanswered is not None:
            self._write(Line(kind="stopped", text=why, when=_now()))

    def begin_again(self) -> None:
        """Forget the turns; the file keeps them. Raises StorageError."""
        if self.asked:
            self._write(Line(kind="new", when=_now()))

    def _write(self, line: Line) -> None:
        append_line(self.path, line.model_dump_json(exclude_none=True))
        self._take(line)

    def _take(self, line: Line) -> None:
        if line.kind == "question":
            self.unanswered = line.text
            self.asked.append(line.text)
            return
        if line.kind == "answer" and self.unanswered is not None:
            self.turns += [
                Message(role="user", content=self.unanswered),
                Message(role="assistant", content=line.text),
            ]
        elif line.kind == "new":
            self.turns = []
        self.unanswered = None
        self.usage += line.usage or Usage()
        self.seconds += line.seconds or 0.0


def opened(path: Path | None, *, resume: bool) -> Transcript:
    """The conversation that the options name: a new one, or one to go on with. Raises ConfigurationError, DataError."""
    if path is None:
        folder = conversations_dir()
        if not resume:
            return Transcript(folder / f"{datetime.now():%Y-%m-%dT%H%M%S.%f}-{os.getpid()}.jsonl")
        kept = sorted(folder.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        if not kept:
            raise ConfigurationError("there is no conversation to take up: begin one without --resume")
        return Transcript(kept[-1])
    path = expanded(path)
    if resume and not path.exists():
        raise ConfigurationError(f"there is no conversation in {path}: begin one without --resume")
    if not resume and path.exists() and path.stat().st_size:
        _refuse_another(path)
        raise ConfigurationError(f"{path} has content already: --resume takes a conversation up")
    return Transcript(path)


def _refuse_another(path: Path) -> None:
    """Raise ConfigurationError for a file of which no line is a conversation's: setting lines aside would ruin it."""
    lines = [line[: len(_START)] for _, line in read_lines(path, "the conversation")]
    if lines and _START not in lines:
        raise ConfigurationError(f"{path} holds something else than a conversation: give --conversation another file")


_START = b'{"kind":"'


def _read(data: bytes) -> Line:
    return Line.model_validate_json(data)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
