"""Questions of one's own: `questions:FILE` with answers, to measure; `questions_train:FILE`, to grow trajectories on.

The latter need no answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import DataError
from reground.core.paths import expanded
from reground.core.programs import Sandbox
from reground.core.trajectory import RetrieveStep, Trajectory
from reground.evaluation.data import example_of, numbered_records
from reground.evaluation.metrics.text import gold_recall
from reground.evaluation.questions import MEASURED
from reground.evaluation.task import Example, Score, Task
from reground.evaluation.tasks._demonstrations import MULTI_HOP
from reground.evaluation.tasks._own_files import read_answered
from reground.evaluation.tasks._retrieved import document_id, retrieved_passages
from reground.evaluation.tasks.qa import NO_RETRIEVAL, QuestionAnswering

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


@dataclass(frozen=True)
class OwnAnswers(QuestionAnswering):
    """Questions with answers about documents of one's own, scored as those of the question-answering benchmarks."""

    def recall(self, example: Example, steps: Sequence[RetrieveStep]) -> Score:
        """The share of the supporting passages, or of their documents, that was retrieved."""
        known = self.evidence(example)
        if isinstance(known, str):
            return Score(value=None, why=known)
        if not steps:
            return NO_RETRIEVAL
        found = [document_id(passage.id, known) for passage in retrieved_passages(steps)]
        return Score(value=gold_recall(known, found))


def read_measured(path: Path) -> OwnAnswers:
    """The questions of a JSONL or CSV file: `question`, `answer` or `answers`, and perhaps `id` and `passages`.

    passages: the ids of the passages, or of the documents, that support the answer. Raises DataError.
    """
    file = expanded(path)
    return OwnAnswers(f"{MEASURED}:{file.name}", "token F1", read_answered(file), MULTI_HOP)


FOLDERS: dict[str, Callable[[Path], Task]] = {MEASURED: read_measured, NAME: read_own}
