"""The options of `train rewriter`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import Benchmark, Fresh
from reground.app.options_cluster import Cluster
from reground.app.options_training import TrainingFolder
from reground.training.settings import Optimising, Precise, WarmUp


@dataclass(frozen=True, kw_only=True)
class RewriterFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/rewriter")


@dataclass(frozen=True, kw_only=True)
class RewriterCollect(RewriterFolder, Benchmark, Cluster):
    """The options of `train rewriter collect`."""

    limit: int = 400
    """The number of questions, drawn by the seed; 0 means all."""

    passages: int = field(default=3, metadata={"min": 1})
    """Passages of all queries together that are read."""

    passages_only: bool = False
    """Do not answer the questions: the passages alone show whether a rewriting was good (--proof passages)."""


@dataclass(frozen=True, kw_only=True)
class Base(Fresh):
    """The weights to begin with."""

    base: str | None = None
    """The weights to begin with, as in hf/: a repository, a folder, a GGUF file or alias."""

    fresh: bool = False
    """Begin again and discard checkpoints."""


@dataclass(frozen=True, kw_only=True)
class RewriterWarmup(RewriterFolder, Base, WarmUp, Precise):
    """The options of `train rewriter warmup`."""

    epochs: float = field(default=3.0, metadata={"min": 0})
    """Passes over the rewritings."""

    learning_rate: float = field(default=5e-5, metadata={"min": 0})
    """The highest learning rate."""

    batch: int = field(default=8, metadata={"min": 1})
    """Rewritings that are computed together."""

    lora_rank: int = field(default=0, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights."""

    threads: int | None = field(default=None, metadata={"min": 1})
    """Processor threads; all by default."""


@dataclass(frozen=True, kw_only=True)
class RewriterPpo(RewriterFolder, Base, Optimising, Benchmark):
    """The options of `train rewriter ppo`."""

    limit: int = 0
    """The number of questions to learn from, drawn by the seed; 0 means all."""

    validation: int = field(default=64, metadata={"min": 1})
    """The number of training questions that are set aside to choose the best weights by."""

    passages: int = field(default=3, metadata={"min": 1})
    """Passages of all queries together that are read."""

    reward: str = "retrieval"
    """What a rewriting earns: retrieval (hit and reciprocal rank, without a reader), paper (exact match, F1 and hit of
    the whole pipeline), or metrics with weights, such as hit=1,gold recall=0.5."""

    control: Literal["rloo", "grpo"] | None = None
    """Train by TRL's RLOO or GRPO instead, on as many replies and the same reward; the result is OUT/rloo or
    OUT/grpo."""

    lora_rank: int = field(default=0, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights."""

    layers: int = field(default=0, metadata={"min": 0})
    """The number of last layers to train, which takes less time; 0 trains all weights."""

    seed: int = 0
    """Draws the questions and the samples."""


@dataclass(frozen=True, kw_only=True)
class RewriterEval(RewriterFolder, Benchmark):
    """The options of `train rewriter eval`."""

    limit: int = 0
    """The number of questions, drawn by the seed; 0 means all."""

    passages: int = field(default=3, metadata={"min": 1})
    """Passages of all queries together that are read."""

    models: str | None = None
    """Models to measure, separated by commas: folders or anything that hf/ takes; the training's own by default."""

    prompted: bool = False
    """Measure --model as a prompted rewriter too."""

    answered: int = field(default=0, metadata={"min": 0})
    """The number of questions, the first ones, that --model also answers with what each rewriter finds."""
