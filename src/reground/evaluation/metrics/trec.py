"""Reads and writes TREC run files and qrels; reads BEIR's qrels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from reground.core.errors import DataError
from reground.core.files import replace_lines
from reground.evaluation.metrics.ranking import Qrels, Run, ranked


def read_run(path: Path) -> dict[str, dict[str, float]]:
    """Read `query Q0 document rank score tag` lines as {query: {document: score}}.

    As in trec_eval, the score decides, not the rank column. Raises DataError naming the line.
    """
    run: dict[str, dict[str, float]] = {}
    for number, columns in _rows(path, 6):
        query, _, document, _, text, _ = columns
        score = _number(text, path, number)
        if document in run.setdefault(query, {}):
            raise DataError(f"document {document} is listed twice for query {query}", path=path, line=number)
        run[query][document] = score
    return run


def write_run(path: Path, run: Run, *, tag: str = "reground") -> None:
    """Write a run in trec_eval's order, with exact scores.

    Raises DataError for a name that is empty or has white space, and for a score that is not finite.
    """
    _write(path, run_lines(path, run, _name(path, tag)))


def run_lines(path: Path, run: Run, tag: str) -> Iterator[str]:
    """A run's lines, each with its end. path: for errors, which are DataError."""
    for query, scores in run.items():
        for rank, document in enumerate(ranked(scores), start=1):
            score = scores[document]
            if not math.isfinite(score):
                raise DataError(f"the score of document {document} for query {query} is {score}", path=path)
            yield f"{_name(path, query)} Q0 {_name(path, document)} {rank} {float(score)!r} {tag}\n"


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read TREC qrels (`query 0 document relevance`) or BEIR's TSV (`query-id corpus-id score`, with a header).

    Raises DataError naming the line.
    """
    beir = len(next((columns for _, columns in _columns(path)), [])) == 3
    qrels: dict[str, dict[str, int]] = {}
    for number, columns in _rows(path, 3 if beir else 4, header=beir):
        query, document, text = columns[0], columns[-2], columns[-1]
        if not _is_integer(text):
            raise DataError(f"the relevance {text!r} is not a whole number", path=path, line=number)
        qrels.setdefault(query, {})[document] = int(text)
    return qrels


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write TREC qrels."""
    _write(
        path,
        (
            f"{_name(path, query)} 0 {_name(path, document)} {grade}\n"
            for query, grades in qrels.items()
            for document, grade in grades.items()
        ),
    )


def _rows(path: Path, width: int, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    for number, columns in _columns(path):
        if header and number == 1 and not _is_integer(columns[-1]):
            continue
        if len(columns) != width:
            raise DataError(f"expected {width} columns, found {len(columns)}", path=path, line=number)
        yield number, columns


def _columns(path: Path) -> Iterator[tuple[int, list[str]]]:
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if columns := line.split():
                    yield number, columns
    except UnicodeDecodeError:
        raise DataError("not UTF-8 text", path=path, line=number + 1) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _number(text: str, path: Path, line: int) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"the score {text!r} is not a number", path=path, line=line)
    return number


def _name(path: Path, name: str) -> str:
    if not name or name.split() != [name]:
        raise DataError(f"{name!r} cannot be in a TREC file: it is empty or has white space", path=path)
    return name


def _write(path: Path, lines: Iterable[str]) -> None:
    replace_lines(path, (line.encode() for line in lines))
