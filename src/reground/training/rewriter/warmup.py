"""Pseudo data for the warm-up of a rewriter (Rewrite-Retrieve-Read, section 3.2), and the questions left for PPO.

A prompted model rewrites the training questions, and the pipeline answers them: two ordinary runs, one with the
rewriting and one with the question itself as the query. A rewriting is kept where it led to the answer. A question that
leads there by itself is kept as its own rewriting, so that the model also learns to leave it as it is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class WarmUpRows:
    """The rows of a warm-up, how many are copies, and the number of rewritings left out by reason."""

    rows: list[Demonstration]
    copies: int
    dropped: Counter[str]

    def describe(self) -> str:
        """One line with the numbers."""
        dropped = ", ".join(f"{count} {why}" for why, count in self.dropped.items())
        rows = f"{len(self.rows) - self.copies} rewritings and {self.copies} copies"
        return f"{rows}; left out: {dropped}" if dropped else rows


def warmup_rows(rewritten: Path, plain: Path | None, settings: WarmUp) -> WarmUpRows:
    """The demonstrations of two finished runs on training questions.

    rewritten: the run of `rewrite_retrieve_read` with a prompted rewriter. plain: the run with the question as the
    query, for copies; one that the method would read as other queries, such as one with lines of options, cannot be its
    own. Raises DataError where no rewriting led to an answer.
    """
    dropped = Counter[str]()
    rewritings, copies = list[Demonstration](), list[Demonstration]()
    for record, trajectory in scored(rewritten):
        queries, question = queries_of(trajectory), trajectory.question
        if record.failure is not None:
            dropped["failed"] += 1
        elif not queries:
            dropped["no query"] += 1
        elif queries == [question]:
            dropped["its own question"] += 1
        elif not _proven(record, settings.proof):
            dropped["wrong"] += 1
        else:
            rewritings.append(demonstration(record.example, question, "; ".join(queries)))
    if not rewritings:
        raise DataError("no rewriting here led to the answer: more questions, or a better model", path=rewritten)
    for record, trajectory in () if plain is None else scored(plain):
        question = trajectory.question
        proven = record.failure is None and _proven(record, settings.proof)
        if proven and parse_queries(question, most=2) == [question]:
            copies.append(demonstration(record.example, question, question))
    draw = random.Random(settings.seed)
    draw.shuffle(copies)
    copies = copies[: round(settings.copies / (1 - settings.copies) * len(rewritings))]
    rows = [*rewritings, *copies]
    draw.shuffle(rows)
    return WarmUpRows(rows, len(copies), dropped)


def _proven(record: Record, proof: str) -> bool:
    right, hit = record.value("exact match") == 1, record.value("hit") == 1
    return right if proof == "answer" else hit if proof == "passages" else right or hit


def demonstration(question_id: str, question: str, queries: str) -> Demonstration:
    """One row: what a trained rewriter reads, and the queries joined by ";" (official code)."""
    prompt = render(Prompts().trained, question=question)
    messages = (Message(role="user", content=prompt), Message(role="assistant", content=queries))
    return Demonstration(question=question_id, messages=messages)


def queries_of(trajectory: Trajectory) -> list[str]:
    """The queries of a rewriting; none where none was made."""
    for step in trajectory.steps:
        if isinstance(step, NoteStep) and step.name == "rewritten":
            queries = step.data.get("queries")
            return [str(query) for query in queries] if isinstance(queries, list | tuple) else []
    return []


@dataclass(frozen=True)
class Divided:
    """Questions in two parts. overlap: how many of those for validation were in the warm-up's data."""

    learning: list[Example]
    validation: list[Example]
    overlap: int

    def __str__(self) -> str:
        """What is said of them."""
        parts = f"{len(self.learning)} questions to learn from, {len(self.validation)} others for validation"
        if not self.overlap:
            return f"{parts}, none of which was in the warm-up's data"
        return f"{parts}, {self.overlap} of which were in the warm-up's data, because it left too few"


def divided(examples: Sequence[Example], *, validation: int, limit: int | None, earlier: Container[str]) -> Divided:
    """Questions as they were drawn, in two parts.

    Those for validation are the first that are not `earlier`, and where these are too few the last of the others.
    limit: how many of the rest to learn from; None means all.
    """
    fresh = [example for example in examples if example.id not in earlier][:validation]
    others = [example for example in examples if example.id in earlier]
    missing = validation - len(fresh)
    held_out = [*fresh, *others[len(others) - missing :]]
    aside = {example.id for example in held_out}
    return Divided([example for example in examples if example.id not in aside][:limit], held_out, missing)


def question_ids(rows: Path) -> set[str]:
    """The ids of the questions in a warm-up's data; none where there is no such file. Raises DataError."""
    return {row.question for row in read_rows(rows, Demonstration)} if rows.is_file() else set()
