"""A conversation as a file: a line for each question and each answer, so that it can be taken up after any end."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from reground.core.errors import ConfigurationError
from reground.core.files import append_line, read_lines, set_aside, without_sum
from reground.core.language import Message, Text, Value
from reground.core.paths import conversations_dir, expanded

_BEGINNING = b'{"kind":"'


class Line(Value):
    """A line of the file. text: the question, the answer, or why a question got none ("stopped"). when: ISO 8601."""

    kind: Literal["question", "answer", "stopped"]
    text: Text
    when: str
    trajectory: Text | None = None


class Transcript:
    """The conversation in a file. A question is written before it is asked.

    turns: the questions that were answered, and their answers. unanswered: the question that the end of the process cut
    short. notices: what could not be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turns: list[Message] = []
        self.unanswered: str | None = None
        self.notices: list[str] = []
        if path.exists():
            _check(path)
            self.notices = set_aside(path, Line.model_validate_json)
            for _, line in read_lines(path, "the conversation"):
                self._take(Line.model_validate_json(without_sum(line)))

    def write(self, kind: Literal["question", "answer", "stopped"], text: str, trajectory: Path | None = None) -> None:
        """Write a line down; "stopped" closes a question without an answer. Raises StorageError."""
        when = datetime.now(UTC).isoformat(timespec="seconds")
        line = Line(kind=kind, text=text, when=when, trajectory=None if trajectory is None else str(trajectory))
        append_line(self.path, line.model_dump_json(exclude_none=True))
        self._take(line)

    def _take(self, line: Line) -> None:
        if line.kind == "answer" and self.unanswered is not None:
            self.turns.append(Message(role="user", content=self.unanswered))
            self.turns.append(Message(role="assistant", content=line.text))
        self.unanswered = line.text if line.kind == "question" else None


def open_transcript(path: Path | None, *, resume: bool) -> Transcript:
    """A new conversation in this file, or one to go on with; without a path the last one.

    Raises ConfigurationError where there is nothing to take up, or something else in the file; and DataError.
    """
    if path is None:
        kept = sorted(conversations_dir().glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        if resume and not kept:
            raise ConfigurationError("there is no conversation to take up: begin one without --resume")
        name = f"{datetime.now():%Y-%m-%dT%H%M%S.%f}-{os.getpid()}.jsonl"
        return Transcript(kept[-1] if resume else conversations_dir() / name)
    path = expanded(path)
    if resume and not path.exists():
        raise ConfigurationError(f"there is no conversation in {path}: begin one without --resume")
    if not resume and path.exists() and path.stat().st_size:
        _check(path)
        raise ConfigurationError(f"{path} has content already: --resume takes a conversation up")
    return Transcript(path)


def _check(path: Path) -> None:
    """Raise ConfigurationError for a file of which no line is a conversation's: setting lines aside would ruin it."""
    lines = [line for _, line in read_lines(path, "the conversation")]
    if lines and not any(line.startswith(_BEGINNING) for line in lines):
        raise ConfigurationError(f"{path} holds something else than a conversation: give --conversation another file")
