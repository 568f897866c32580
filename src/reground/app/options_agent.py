"""The options of `train agent`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import DEFAULT_MODEL, Benchmark, Fresh, ModelName
from reground.models.options import ModelOptions

FOLDER = Path("runs/agent")


@dataclass(frozen=True, kw_only=True)
class AgentFolder:
    """The folder that the stages of a training share."""

    out: Path = field(default=FOLDER, metadata={"short": "-o"})
    """The folder of the training."""

    dry_run: bool = False
    """Print what the stage would do, or cost, and stop."""


@dataclass(frozen=True, kw_only=True)
class AgentGrow(AgentFolder, Benchmark):
    """The options of `train agent grow`."""

    out: Path = field(default=FOLDER, metadata={"short": "-o"})
    """The folder of the training."""

    limit: int = 160
    """The number of questions, drawn by the seed; 0 means all."""

    repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each question."""


@dataclass(frozen=True, kw_only=True)
class AgentRank(AgentFolder, ModelName):
    """The options of `train agent rank`."""

    model: str = DEFAULT_MODEL
    """provider/model of the judge; see `reground models`."""

    style: Literal["rank", "judge"] = "rank"
    """Show all samples of a step at once, in rotated order, or judge each by itself."""

    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1})
    """Steps in work at once."""

    model_options: ModelOptions = field(default_factory=ModelOptions)
    """Where and how to reach the model."""


@dataclass(frozen=True, kw_only=True)
class AgentMix(AgentFolder):
    """The options of `train agent mix`."""

    by: Literal["perplexity", "ranking", "chance"] = "perplexity"
    """What chooses a step's sample: the lowest perplexity, the ranking, or chance, as a control."""

    most: int | None = field(default=None, metadata={"min": 1})
    """The most rows; all by default."""

    seed: int = 0
    """Draws the rows and their order."""


@dataclass(frozen=True, kw_only=True)
class AgentFit(AgentFolder, Fresh):
    """The options of `train agent fit`."""

    base: str = "smollm2"
    """The weights to begin with, as in hf/: a repository, a folder, a GGUF file or alias. Every generation begins with
    the base again."""

    name: str = "model"
    """The folder of the result in --out, so that several sizes learn from the same mixture."""

    fresh: bool = False
    """Begin again and discard checkpoints."""

    epochs: float = field(default=2.0, metadata={"min": 0})
    """Passes over the mixture."""

    learning_rate: float = field(default=5e-5, metadata={"min": 0})
    """The highest learning rate."""

    batch: int = field(default=8, metadata={"min": 1})
    """Steps that are computed together."""

    max_length: int = field(default=2048, metadata={"min": 16})
    """The most tokens of a step with its prompt; what is longer loses the beginning of the prompt."""

    lora_rank: int = field(default=0, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights, as in the paper."""

    seed: int = 0
    """The order of the rows."""

    threads: int | None = field(default=None, metadata={"min": 1})
    """Processor threads; all by default."""
