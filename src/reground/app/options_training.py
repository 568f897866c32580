"""The options of training, each defined once (see `app.options`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import Data, Fresh
from reground.app.options_documents import Documents
from reground.training.settings import Precise


@dataclass(frozen=True, kw_only=True)
class TrainingFolder:
    """The folder that the stages of a training share; each training has its own default."""

    out: Path = field(default=Path("runs/training"), metadata={"short": "-o"})
    """The folder of the training."""

    dry_run: bool = False
    """Print what the stage would do, or cost, and stop."""


@dataclass(frozen=True, kw_only=True)
class TrainingSplits(Data, Documents):
    """The questions with gold passages that an oracle answers."""

    tasks: str = "hotpotqa_train"
    """Training splits with gold passages, separated by commas."""

    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """Documents or an index; each task's own corpus by default."""

    limit: int = field(default=0, metadata={"min": 0})
    """The most questions of each task, drawn by the seed; 0 means all."""


@dataclass(frozen=True, kw_only=True)
class FineTuning(Precise):
    """How a model is fitted to demonstrations."""

    epochs: float = field(default=2.0, metadata={"min": 0})
    """Passes over the data."""

    learning_rate: float = field(default=5e-5, metadata={"min": 0})
    """The highest learning rate."""

    batch: int = field(default=8, metadata={"min": 1})
    """Rows that are computed together."""

    accumulate: int = field(default=1, metadata={"min": 1})
    """Batches whose gradients are added up before a step: small batches of long rows need less memory."""

    max_length: int = field(default=2048, metadata={"min": 16})
    """The most tokens of a row; what is longer loses the beginning of the prompt."""

    lora_rank: int = field(default=0, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights."""


@dataclass(frozen=True, kw_only=True)
class FitNamed(TrainingFolder, FineTuning, Fresh):
    """A fit whose result has a name in the folder."""

    base: str = "smollm2"
    """The weights to begin with, as in hf/: a repository, a folder, a GGUF file or alias."""

    name: str = "model"
    """The folder of the result in --out, so that several sizes learn from the same data."""

    fresh: bool = False
    """Begin again and discard checkpoints."""

    keep_epochs: bool = False
    """Keep the model after each pass over the data too, as NAME-epoch1 and so on."""

    seed: int = 0
    """The order of the rows."""

    threads: int | None = field(default=None, metadata={"min": 1})
    """Processor threads; all by default."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """The options of `train export`."""

    source: str = field(metadata={"argument": True})
    """The model: a folder with an adapter or whole weights, a hub's repository, or a GGUF file."""

    out: Path = field(metadata={"short": "-o"})
    """A folder, or a file whose name ends in .gguf."""

    adapter: bool = False
    """Write the LoRA adapter alone, a small GGUF file for gguf/ with --adapter."""

    like: str | None = None
    """A GGUF file or alias of the same base model, for a GGUF file."""

    precision: Literal["q8_0", "f16"] = "q8_0"
    """The precision of the matrices in a GGUF file."""
