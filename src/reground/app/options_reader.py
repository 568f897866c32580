"""The options of `train reader`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reground.app.options_training import FitNamed, TrainingFolder, TrainingSplits
from reground.training.settings import Reading


@dataclass(frozen=True, kw_only=True)
class ReaderFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/reader")


@dataclass(frozen=True, kw_only=True)
class ReaderData(ReaderFolder, Reading, TrainingSplits):
    """The options of `train reader data`."""


@dataclass(frozen=True, kw_only=True)
class ReaderFit(ReaderFolder, FitNamed):
    """The options of `train reader fit`."""

    learning_rate: float = 2e-4

    max_length: int = 1536

    lora_rank: int = 16
