"""The options of `train reader`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reground.app.options import Data
from reground.app.options_documents import Documents
from reground.app.options_training import FitNamed, TrainingFolder
from reground.training.reader.settings import Reading


@dataclass(frozen=True, kw_only=True)
class ReaderFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/reader")


@dataclass(frozen=True, kw_only=True)
class ReaderData(ReaderFolder, Reading, Data, Documents):
    """The options of `train reader data`."""

    tasks: str = "hotpotqa_train"
    """Training splits with gold passages, separated by commas."""

    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """Documents or an index; each task's own corpus by default."""

    limit: int = field(default=0, metadata={"min": 0})
    """The most questions of each task, drawn by the seed; 0 means all."""


@dataclass(frozen=True, kw_only=True)
class ReaderFit(ReaderFolder, FitNamed):
    """The options of `train reader fit`."""

    learning_rate: float = 2e-4

    max_length: int = 1536

    lora_rank: int = 16
