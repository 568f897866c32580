"""Run folders for tests of the arena."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.trajectory import Failure, Trajectory
from reground.evaluation.records import RunConfig
from reground.evaluation.results import RunFolder, open_run, read_run

QUESTIONS = 3


def write_run(
    path: Path, method: str, answers: Mapping[str, str], *, model: str = "m/one", task: str = "essays", repeat: int = 0
) -> RunFolder:
    """A run whose answers are given by question; an empty one is a failure."""
    config = RunConfig(
        task=task, data="d", primary="em", form="text", method=method, model=model, budget=Budget(tokens=1000)
    )
    with open_run(path, config) as folder:
        for question, text in answers.items():
            folder.append(
                Trajectory(
                    id=f"{question}~{repeat}",
                    question=f"What is {question}?",
                    method=method,
                    answer=Answer(text=text) if text else None,
                    failure=None if text else Failure(type="X", message="no"),
                    metadata={"task": task, "example": question, "repeat": repeat},
                )
            )
    return read_run(path)


def three_runs(root: Path, *, prefix: str = "") -> list[RunFolder]:
    """Three methods that answer three questions, each in its own words."""
    return [
        write_run(
            root / f"folder-{prefix}{name}",
            f"{prefix}{name}",
            {f"q{n}": f"{word} answer {n}" for n in range(QUESTIONS)},
        )
        for name, word in (("zebrafish", "short"), ("quokka", "long"), ("narwhal", "plain"))
    ]
