"""Finished runs of training questions, from which training data are made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reground.core.trajectory import Trajectory, read_trajectories
from reground.evaluation.records import Record
from reground.evaluation.results import read_records


def scored(folder: Path) -> Iterator[tuple[Record, Trajectory]]:
    """Every scored question of a run with its trajectory. Raises DataError where the folder holds no run."""
    records = {record.id: record for record in read_records(folder / "scores.jsonl")}
    for trajectory in read_trajectories(folder / "trajectories.jsonl"):
        if trajectory.id in records:
            yield records[trajectory.id], trajectory
