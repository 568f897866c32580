"""Questions of one's own: `questions:FILE` with answers, to measure; `questions_train:FILE`, to grow trajectories on.

The latter need no answers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import DataError
from reground.core.files import expanded, regular
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.data import Record, numbered_lines, numbered_records, value_of
from reground.evaluation.questions import MEASURED
from reground.evaluation.task import Example, Loaded, Score, Task, answer_of
from reground.evaluation.tasks.qa import MULTI_HOP, QuestionAnswering

ANSWERS = ("golden_answers", "answers", "answer")
"""The fields that may hold the answers."""
SEPARATOR = "|"
"""Between several answers, or several passages, in one cell."""

_OBJECTS = (".jsonl", ".jsonl.gz")


def read_answered(path: Path) -> tuple[Example, ...]:
    """The questions of a .jsonl, .jsonl.gz, .csv or .tsv file. Raises DataError."""
    name = path.name.lower()
    if not path.exists():
        raise DataError("there is no such file of questions", path=path)
    if name.endswith((".csv", ".tsv")):
        records = _rows(path)
    elif name.endswith(_OBJECTS):
        records = numbered_records(path, ("question",))
    else:
        raise DataError("questions are read from .jsonl, .jsonl.gz, .csv and .tsv files", path=path)
    lines: dict[str, int] = {}
    examples = []
    for line, record in records:
        example = _example(record, path, line)
        if example.id in lines:
            raise DataError(f"the id {example.id!r} is already that of line {lines[example.id]}", path=path, line=line)
        lines[example.id] = line
        examples.append(example)
    if not examples:
        raise DataError("has no questions", path=path)
    return tuple(examples)


def _example(record: Mapping[str, JsonValue], path: Path, line: int) -> Example:
    question = record.get("question")
    if not isinstance(question, str) or not question.strip():
        raise DataError("the question is empty", path=path, line=line)
    golds = next(filter(None, (_golds(record.get(name)) for name in ANSWERS)), None)
    if golds is None:
        why = "the question has no answer: give it in a column or field answer, or several in answers"
        raise DataError(why, path=path, line=line)
    metadata, passages, identity = (record.get(name) for name in ("metadata", "passages", "id"))
    about = dict(metadata) if isinstance(metadata, dict) else {}
    if passages:
        about["gold_ids"] = passages if isinstance(passages, list) else [passages]
    fields = {
        "id": ("" if identity is None else str(identity).strip()) or str(line),
        "question": question.strip(),
        "golden_answers": golds,
        "metadata": about,
    }
    return value_of(fields, Example, path, line)


def _golds(value: JsonValue) -> list[JsonValue]:
    """The answers of a field. Numbers are taken as text, true and false as yes and no.

    Tables in Python write a missing cell as NaN, and the whole numbers of a column that lacks one as 1912.0.
    """
    golds: list[JsonValue] = []
    for each in value if isinstance(value, list) else [value]:
        if each is None or each != each or not str(each).strip():  # NaN alone differs from itself
            continue
        if isinstance(each, bool):
            each = "yes" if each else "no"
        elif isinstance(each, float) and each.is_integer() and abs(each) < 2**53:  # floats below it are exact
            each = str(int(each))
        golds.append(str(each) if isinstance(each, int | float) else each)
    return golds


def _rows(path: Path) -> Iterator[tuple[int, Record]]:
    """The rows under the header, each with the number of its first line; empty ones are left out."""
    lines = list(io.StringIO(_text(path), newline=""))
    skipped = 1 if lines and lines[0].strip().lower().startswith("sep=") else 0  # Excel's own note of the delimiter
    first = next((line for line in lines if line.strip()), "")
    # Excel writes semicolons where the comma is the decimal mark.
    usual = max(",;\t", key=lambda each: (first.count(each), each == ","))
    delimiter = (lines[0].strip()[4:5] if skipped else usual) or "\t"
    reader = csv.reader(lines[skipped:], delimiter=delimiter, strict=True)
    header: Sequence[str] = ()
    begin = skipped + 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if not header:
                    header = _header(cells, path, begin)
                else:
                    yield begin, _row(header, cells, delimiter, path, begin)
            begin = skipped + reader.line_num + 1
    except csv.Error as error:
        why = "a quote is not closed" if "end of data" in str(error) else str(error)
        raise DataError(f"not CSV: {why}", path=path, line=begin) from None


def _text(path: Path) -> str:
    """The file's text: UTF-8, or UTF-16 with a mark, which Excel's "Unicode text" is."""
    try:
        data = regular(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = None if wide else data.count(b"\n", 0, error.start) + 1
        raise DataError('not UTF-8 text: in Excel, save it as "CSV UTF-8"', path=path, line=line) from None


def _header(cells: Sequence[str], path: Path, line: int) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    if "question" not in names or not set(ANSWERS) & set(names):
        raise DataError("the first line must name the columns question and answer (or answers)", path=path, line=line)
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the column {twice!r} stands twice", path=path, line=line)
    return names


def _row(header: Sequence[str], cells: Sequence[str], delimiter: str, path: Path, line: int) -> Record:
    if any(cell.strip() for cell in cells[len(header) :]):
        mark = "tab" if delimiter == "\t" else repr(delimiter)
        hint = f"put the cell in quotes if its text has a {mark}"
        raise DataError(f"{len(cells)} cells under {len(header)} columns; {hint}", path=path, line=line)
    row: Record = {name: cell.strip() for name, cell in zip(header, cells, strict=False) if name != "metadata"}
    for name in ("golden_answers", "answers", "passages"):
        if name in row:
            row[name] = [part.strip() for part in str(row[name]).split(SEPARATOR) if part.strip()]
    return row


NAME = "questions_train"
ANSWERED = "answered"


@dataclass(frozen=True)
class OwnQuestions(Loaded):
    """Questions without answers, with which nothing is measured. Scored is only whether there is an answer."""

    form: AnswerForm = TEXT

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """1 where there is an answer."""
        return {ANSWERED: Score(value=float(bool(answer_of(trajectory).strip())))}


def read_own(path: Path) -> Task:
    """The questions of a file: one a line, or JSONL objects with `question` and perhaps `id`. Raises DataError."""
    records: Iterable[tuple[int, Record]] = ((line, {"question": text.strip()}) for line, text in numbered_lines(path))
    if path.name.endswith(_OBJECTS):
        records = numbered_records(path, ("question",))
    questions = tuple(
        value_of({"id": record.get("id", str(line)), "question": record["question"]}, Example, path, line)
        for line, record in records
    )
    if not questions:
        raise DataError("has no questions", path=path)
    return OwnQuestions(NAME, ANSWERED, questions, secret=())


def read_measured(path: Path) -> Task:
    """The questions of a JSONL or CSV file: `question`, `answer` or `answers`, and perhaps `id` and `passages`.

    passages: the ids of the passages, or of the documents, that support the answer. Raises DataError.
    """
    file = expanded(path)
    return QuestionAnswering(f"{MEASURED}:{file.name}", "token F1", read_answered(file), MULTI_HOP, prefixed=False)


FOLDERS: dict[str, Callable[[Path], Task]] = {MEASURED: read_measured, NAME: read_own}
