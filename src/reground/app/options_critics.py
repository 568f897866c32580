"""The options of `train critics`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import Data, Fresh, Trees
from reground.app.options_cluster import Cluster
from reground.app.options_training import TrainingFolder
from reground.training.settings import PairSettings, Precise


@dataclass(frozen=True, kw_only=True)
class CriticsFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/critics")


@dataclass(frozen=True, kw_only=True)
class CriticsCollect(CriticsFolder, Trees, Cluster):
    """The options of `train critics collect`."""

    speed: float | None = field(default=None, metadata={"min": 0.001, "panel": "Cost"})
    """Tokens per second, all calls together, for the time that --dry-run tells."""


@dataclass(frozen=True, kw_only=True)
class CriticsData(CriticsFolder, PairSettings, Data):
    """The options of `train critics data`."""


@dataclass(frozen=True, kw_only=True)
class Fit(Fresh, Precise):
    """How critics are fitted."""

    engine: Literal["encoder", "embedder", "lm"] = "encoder"
    """encoder is a cross-encoder, small enough for a processor; embedder compares context and candidate by their
    vectors, and needs the fewest pairs; lm is a language model with a score head, as in the paper."""

    base: str | None = None
    """The weights to begin with: a hub's name or a folder, minilm by default; for lm as in hf/, smollm2 by default."""

    models: Literal["each", "shared"] = "each"
    """each fits one model for each kind of choice, shared one for all."""

    kinds: str = "subgoal,rationale,query,doc"
    """The kinds of choice to fit critics for, separated by commas."""

    margin: bool = False
    """Ask for scores that differ by the pairs' margins."""

    text_only: bool = False
    """Let the text's score decide alone. Otherwise it is weighed against what else is known: the search's score and
    rank of a document, the log-probability of a query or a rationale, the place of a sub-goal."""

    epochs: float | None = field(default=None, metadata={"min": 0})
    """Passes over the pairs; 1 by default."""

    learning_rate: float | None = field(default=None, metadata={"min": 0})
    """The highest learning rate; by default 1e-4 for lm, 5e-5 for the others."""

    batch: int | None = field(default=None, metadata={"min": 1})
    """Pairs that are computed together; by default 8 for lm, 16 for the others."""

    accumulate: int | None = field(default=None, metadata={"min": 1})
    """Batches whose gradients are added up before a step; 1 by default."""

    max_length: int | None = field(default=None, metadata={"min": 16})
    """The most tokens of a text, context and candidate together, or each for an embedder; by default 512 for lm,
    256 for the others."""

    lora_rank: int | None = field(default=None, metadata={"min": 0})
    """The rank of lm's LoRA matrices, 16 by default; 0 trains all weights."""

    checkpoint_every: int | None = field(default=None, metadata={"min": 1})
    """Steps between checkpoints; 50 by default."""

    threads: int | None = field(default=None, metadata={"min": 1})
    """Processor threads; all by default."""

    fresh: bool = False
    """Begin the fit again and discard its checkpoints."""


@dataclass(frozen=True, kw_only=True)
class CriticsFit(CriticsFolder, Fit):
    """The options of `train critics fit`."""

    seed: int = 0
    """Seeds the order of the pairs, dropout and new weights."""


@dataclass(frozen=True, kw_only=True)
class CriticsEval(CriticsFolder):
    """The options of `train critics eval`."""


@dataclass(frozen=True, kw_only=True)
class TrainCritics(CriticsCollect, PairSettings, Fit):
    """The options of `train critics`: those of all stages."""

    task: str | None = field(default=None, metadata={"short": "-t"})  # type: ignore[assignment]
    """A training split to collect trees of, such as hotpotqa_train; without one, the folder's trees are taken."""

    seed: int = 0
    """Draws the questions, the samples, the held-out questions and the order of the pairs."""
