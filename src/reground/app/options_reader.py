"""The options of `train reader`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reground.app.options import Data, Documents, Fresh
from reground.training.reader.settings import Reading


@dataclass(frozen=True, kw_only=True)
class ReaderFolder:
    """The folder that the stages of a training share."""

    out: Path = field(default=Path("runs/reader"), metadata={"short": "-o"})
    """The folder of the training."""

    dry_run: bool = False
    """Print what the stage would do, or cost, and stop."""


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
class ReaderFit(ReaderFolder, Fresh):
    """The options of `train reader fit`."""

    base: str = "smollm2"
    """The weights to begin with, as in hf/: a repository, a folder, a GGUF file or alias."""

    name: str = "model"
    """The folder of the result in --out, so that several sizes learn from the same data."""

    epochs: float = field(default=2.0, metadata={"min": 0})
    """Passes over the demonstrations."""

    learning_rate: float = field(default=2e-4, metadata={"min": 0})
    """The highest learning rate."""

    batch: int = field(default=8, metadata={"min": 1})
    """Demonstrations that are computed together."""

    max_length: int = field(default=1536, metadata={"min": 16})
    """The most tokens of a demonstration; what is longer loses the beginning of its prompt."""

    lora_rank: int = field(default=16, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights."""

    fresh: bool = False
    """Begin again and discard checkpoints."""

    keep_epochs: bool = False
    """Keep the model after each pass over the demonstrations too, as NAME-epoch1 and so on."""

    seed: int = 0
    """The order of the demonstrations."""

    threads: int | None = field(default=None, metadata={"min": 1})
    """Processor threads; all by default."""
