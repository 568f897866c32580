"""Reads questions in the common form, and converts the special cases of two data sets."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import JsonValue

from reground.core.errors import DataError
from reground.evaluation.data import Record, example_of, numbered_records
from reground.evaluation.task import Example


def read_questions(path: Path, split: str | None = None) -> list[Example]:
    """Questions in the common form, of one split if given.

    Raises DataError naming the line of a question without a golden answer or with a field of the wrong type.
    """
    examples = []
    for line, record in numbered_records(path, ("id", "question", "golden_answers")):
        metadata = record.get("metadata") or {}
        if split is not None and isinstance(metadata, dict) and metadata.get("split") != split:
            continue
        golds = _golds(record)
        if not golds:
            raise DataError("the question has no golden answer", path=path, line=line)
        fields = {"id": record["id"], "question": record["question"], "golden_answers": golds, "metadata": metadata}
        examples.append(example_of(fields, path, line))
    if not examples:
        raise DataError(f"has no questions of the split {split}" if split else "has no questions", path=path)
    return examples


def _golds(record: Record) -> JsonValue:
    golds = record["golden_answers"]
    if not isinstance(golds, list):
        return golds
    words: dict[JsonValue, JsonValue] = {True: "yes", False: "no"}
    return [words[gold] if isinstance(gold, bool) else gold for gold in golds]


_BRACKETED = re.compile(r"^(?P<name>.*\S)\s*\((?:or\s++(?=[^()]))?+(?P<other>[^()]+)\)$")


def split_alternatives(examples: list[Example]) -> list[Example]:
    """Make BamTwoogle's alternatives in brackets aliases, as in "Detroit Red Wings (or Red Wings)"."""
    return [
        example.model_copy(
            update={"golden_answers": tuple(alias for gold in example.golden_answers for alias in _aliases(gold))}
        )
        for example in examples
    ]


def _aliases(gold: str) -> tuple[str, ...]:
    parts = _BRACKETED.match(gold)
    return (gold, parts["name"], parts["other"]) if parts else (gold,)


def merge_wordings(examples: list[Example]) -> list[Example]:
    """Merge PopQA's questions about namesakes, which have the same words and may mean either."""
    merged: dict[str, Example] = {}
    for example in examples:
        first = merged.get(example.question)
        if first is None:
            merged[example.question] = example
            continue
        golds = dict.fromkeys((*first.golden_answers, *example.golden_answers))
        update = {"golden_answers": tuple(golds), "metadata": {**first.metadata, "ambiguous": True}}
        merged[example.question] = first.model_copy(update=update)
    return list(merged.values())
