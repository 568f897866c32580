"""Pseudo data for the warm-up of a rewriter (Rewrite-Retrieve-Read, section 3.2), and the questions left for PPO.

A prompted model rewrites the training questions, and the pipeline answers them: two ordinary runs, one with the
rewriting and one with the question itself as the query. A rewriting is kept where it led to the answer. A question that
leads there by itself is kept as its own rewriting, so that the model also learns to leave it as it is.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reground.core.errors import DataError
from reground.core.language import Message
from reground.core.trajectory import NoteStep, Trajectory
from reground.evaluation.results import Record
from reground.evaluation.task import Example
from reground.methods.rewrite_retrieve_read import Prompts
from reground.methods.shared.prompts import render
from reground.text.queries import parse_queries
from reground.training.rows import Demonstration, read_rows, scored
from reground.training.settings import WarmUp

Why = Literal["wrong", "no query", "failed", "its own question"]


@dataclass(frozen=True)
class Kept:
    """The rows of a warm-up, and the number of rewritings left out by reason."""

    rows: list[Demonstration]
    rewritings: int
    copies: int
    dropped: Mapping[Why, int]

    def describe(self) -> str:
        """One line with the numbers."""
        dropped = ", ".join(f"{count} {why}" for why, count in self.dropped.items() if count)
        rows = f"{self.rewritings} rewritings and {self.copies} copies"
        return f"{rows}; left out: {dropped}" if dropped else rows


def warmup_rows(rewritten: Path, plain: Path | None, settings: WarmUp) -> Kept:
    """The demonstrations of two finished runs on training questions.

    rewritten: the run of `rewrite_retrieve_read` with a prompted rewriter. plain: the run with the question as the
    query, for copies. Raises DataError where no rewriting led to an answer.
    """
    dropped: dict[Why, int] = {"wrong": 0, "no query": 0, "failed": 0, "its own question": 0}
    made: list[Demonstration] = []
    for record, trajectory in scored(rewritten):
        queries = queries_of(trajectory)
        why = _fault(record, queries, trajectory.question, settings.proof)
        if why is None:
            made.append(demonstration(record.example, trajectory.question, "; ".join(queries)))
        else:
            dropped[why] += 1
    if not made:
        raise DataError("no rewriting here led to the answer: more questions, or a better model", path=rewritten)
    copies = [] if plain is None else [*_copies(plain, settings)]
    draw = random.Random(settings.seed)
    draw.shuffle(copies)
    most = round(settings.copies / (1 - settings.copies) * len(made))
    rows = [*made, *copies[:most]]
    draw.shuffle(rows)
    return Kept(rows, len(made), len(rows) - len(made), dropped)


def demonstration(question_id: str, question: str, queries: str) -> Demonstration:
    """One row: what a trained rewriter reads, and the queries joined by ";" (official code)."""
    asked = render(Prompts().trained, question=question)
    messages = (Message(role="user", content=asked), Message(role="assistant", content=queries))
    return Demonstration(question=question_id, messages=messages)


def queries_of(trajectory: Trajectory) -> list[str]:
    """The queries of a rewriting; none where none was made."""
    for step in trajectory.steps:
        if isinstance(step, NoteStep) and step.name == "rewritten":
            queries = step.data.get("queries")
            return [str(query) for query in queries] if isinstance(queries, list | tuple) else []
    return []


def _copies(plain: Path, settings: WarmUp) -> Iterator[Demonstration]:
    """Questions that need no rewriting. One that the method would read as other queries, such as one with lines of
    options, cannot be its own.
    """
    for record, trajectory in scored(plain):
        as_read = parse_queries(trajectory.question, most=2)
        if record.failure is None and _proven(record, settings.proof) and as_read == [trajectory.question]:
            yield demonstration(record.example, trajectory.question, trajectory.question)


def _fault(record: Record, queries: list[str], question: str, proof: str) -> Why | None:
    if record.failure is not None:
        return "failed"
    if not queries:
        return "no query"
    if queries == [question]:
        return "its own question"
    return None if _proven(record, proof) else "wrong"


def _proven(record: Record, proof: str) -> bool:
    right, held = record.value("exact match") == 1, record.value("hit") == 1
    return right if proof == "answer" else held if proof == "passages" else right or held


@dataclass(frozen=True)
class Divided:
    """Questions in two parts. known: how many of those for validation were in the warm-up's data."""

    learning: list[Example]
    validation: list[Example]
    known: int

    def __str__(self) -> str:
        """What is said of them."""
        parts = f"{len(self.learning)} questions to learn from, {len(self.validation)} others for validation"
        if not self.known:
            return f"{parts}, none of which was in the warm-up's data"
        return f"{parts}, {self.known} of which were in the warm-up's data, because it left too few"


def divided(drawn: Sequence[Example], *, validation: int, limit: int | None, known: Container[str]) -> Divided:
    """Questions as they were drawn, in two parts.

    Those for validation are the first that are not `known`, and where these are too few the last of the others. limit:
    how many of the rest to learn from; None means all.
    """
    fresh = [example for example in drawn if example.id not in known][:validation]
    others = [example for example in drawn if example.id in known]
    missing = validation - len(fresh)
    chosen = [*fresh, *others[len(others) - missing :]]
    aside = {example.id for example in chosen}
    return Divided([example for example in drawn if example.id not in aside][:limit], chosen, missing)


def learnt(rows: Path) -> set[str]:
    """The ids of the questions in a warm-up's data; none where there is no such file. Raises DataError."""
    return {row.question for row in read_rows(rows, Demonstration)} if rows.is_file() else set()
