"""`questions_train:FILE`: questions of one's own to grow trajectories on. They need no answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import DataError
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import example_of, numbered_records
from reground.evaluation.task import Example, Score, Task

NAME = "questions_train"
ANSWERED = "answered"


@dataclass(frozen=True)
class OwnQuestions(Task):
    """Questions without answers. Scored is only whether there is an answer."""

    questions: tuple[Example, ...]

    @property
    def name(self) -> str:
        """The task's name."""
        return NAME

    @property
    def form(self) -> AnswerForm:
        """Free text."""
        return TEXT

    @property
    def primary(self) -> str:
        """Whether there is an answer."""
        return ANSWERED

    def examples(self) -> Sequence[Example]:
        """All questions, in the file's order."""
        return self.questions

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """1 where there is an answer."""
        said = trajectory.answer.text if trajectory.answer is not None else ""
        return {ANSWERED: Score(value=float(bool(said.strip())))}


def read_own(path: Path) -> OwnQuestions:
    """The questions of a file: one a line, or JSONL objects with `question` and perhaps `id`. Raises DataError."""
    records = _objects(path) if path.suffixes[-2:] in ([".jsonl", ".gz"],) or path.suffix == ".jsonl" else _lines(path)
    questions = tuple(records)
    if not questions:
        raise DataError("has no questions", path=path)
    return OwnQuestions(questions)


def _objects(path: Path) -> Iterator[Example]:
    for line, record in numbered_records(path, ("question",)):
        yield example_of({"id": record.get("id", str(line)), "question": record["question"]}, path, line)


def _lines(path: Path) -> Iterator[Example]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as questions, one a line: {error}", path=path) from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield example_of({"id": str(number), "question": line.strip()}, path, number)


FOLDERS: dict[str, Callable[[Path], Task]] = {NAME: read_own}
