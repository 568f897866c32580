"""A small corpus of our own, real facts in short articles, and questions that need two or three of them."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any


def corpus_path() -> Path:
    """The folder of the articles, one Markdown file each."""
    return _packaged("corpus")


def questions_path() -> Path:
    """The questions as JSONL: id, question, golden_answers, and metadata with gold_ids (file names) and hops."""
    return _packaged("questions.jsonl")


def measured(model: str, method: str) -> dict[str, Any] | None:
    """How many of the questions a model and a method had right: right, of, date; None where it was not measured."""
    lines = _packaged("measured.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if (record["model"], record["method"]) == (model, method)]
    return records[-1] if records else None


def _packaged(name: str) -> Path:
    # reground is never installed as a zip archive, so its data files lie on disk.
    return Path(str(files(__name__).joinpath(name)))
