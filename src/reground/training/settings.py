"""The settings of every trainer, each written once: the command line and the configuration file read these classes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Literal

from reground.core.errors import ConfigurationError
from reground.models.options import Dtype


@dataclass(frozen=True, kw_only=True)
class Precise:
    """What a training computes in."""

    precision: Dtype = "auto"
    """What it computes in; auto is bfloat16 on a GPU that has it, else float32. A processor with AVX512-BF16 or AMX
    gains from bfloat16 too. Weights that are trained stay in float32."""

    @property
    def bfloat16(self) -> bool:
        """Whether to compute in bfloat16 on this machine."""
        import torch

        if self.precision == "auto":
            return bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported())
        return self.precision == "bfloat16"


@dataclass(frozen=True, kw_only=True)
class Fitting(Precise):
    """The settings that every fit has."""

    epochs: float = 1.0
    """Passes over the data."""

    learning_rate: float = 1e-4
    """The highest learning rate; it rises over the warm-up and then falls linearly to zero."""

    warmup: float = 0.1
    """The share of the steps over which the learning rate rises."""

    batch: int = 8
    """Examples that are computed together on one device."""

    accumulate: int = 1
    """Batches whose gradients are added up before a step."""

    max_length: int = 512
    """The most tokens of an example; what is longer is cut."""

    lora_rank: int = 16
    """The rank of the LoRA matrices; 0 trains all weights."""

    seed: int = 0
    """Seeds the order of the examples, dropout and new weights."""

    checkpoint_every: int = 50
    """Steps between checkpoints."""

    threads: int | None = None
    """Processor threads; by default all cores. Results can differ in the last digits between numbers of threads."""

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate", "batch", "accumulate", "max_length", "checkpoint_every"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise ConfigurationError(f"{name} must be above 0, not {value}")
        if self.lora_rank < 0:
            raise ConfigurationError(f"lora_rank must be at least 0, not {self.lora_rank}")
        if not 0 <= self.warmup <= 1:
            raise ConfigurationError(f"warmup is a share between 0 and 1, not {self.warmup}")


def fitting_of(order: object) -> Fitting:
    """The settings among a command's options; those it lacks keep their defaults."""
    return Fitting(**{each.name: getattr(order, each.name) for each in fields(Fitting) if hasattr(order, each.name)})


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Which pairs of siblings are kept."""

    min_visits: int = field(default=2, metadata={"min": 1})
    """The fewest simulations through each of the two. The mean of one is mostly noise."""

    min_margin: float = field(default=0.0, metadata={"min": 0})
    """The smallest difference of their mean rewards. Equal means never make a pair."""

    held_out: float = field(default=0.2, metadata={"min": 0})
    """The share of the questions whose pairs measure the critics and are not trained on."""

    gold_documents: bool = False
    """Also put a gold passage above a sibling that is none, where the task knows the gold passages."""

    seed: int = 0
    """Draws the held-out questions."""

    def __post_init__(self) -> None:
        if self.min_visits < 1:
            raise ConfigurationError(f"min_visits must be at least 1, not {self.min_visits}")
        if not 0 <= self.held_out < 1:
            raise ConfigurationError(f"held_out is a share from 0 to below 1, not {self.held_out}")


@dataclass(frozen=True, kw_only=True)
class Demonstrating:
    """How the demonstrations are made."""

    max_searches: int = field(default=3, metadata={"min": 1})
    """Searches a question, at most."""

    k: int = field(default=3, metadata={"min": 1})
    """Results of a search."""

    snippet_tokens: int = field(default=160, metadata={"min": 16})
    """The most tokens of a result."""

    complete: float = field(default=0.0, metadata={"min": 0})
    """The share of questions whose gold passages are put among those found, so that more of them can be answered."""

    seed: int = 0
    """Draws the questions and what is done with each."""

    def __post_init__(self) -> None:
        if not 0 <= self.complete <= 1:
            raise ConfigurationError(f"complete is a share between 0 and 1, not {self.complete}")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the demonstrations are made."""

    repeats: int = field(default=1, metadata={"min": 1})
    """How often each question is asked, each time with another draw."""

    unanswerable: float = field(default=0.25, metadata={"min": 0})
    """The share of questions whose gold passages are hidden, so that the model learns to say so."""

    complete: float = field(default=0.0, metadata={"min": 0})
    """The share of questions whose gold passages are put among those found, so that more of them can be answered."""

    most_passages: int = field(default=4, metadata={"min": 2})
    """Passages in a search, at most; from 2 on, drawn for each question."""

    passage_tokens: int = field(default=300, metadata={"min": 16})
    """The most tokens of a passage, as in the preset grounded+reader."""

    seed: int = 0
    """Draws the questions and what is done with each."""

    def __post_init__(self) -> None:
        if min(self.unanswerable, self.complete) < 0 or self.unanswerable + self.complete > 1:
            raise ConfigurationError(
                f"unanswerable and complete are shares of the same questions: {self.unanswerable} and {self.complete} "
                "must be 0 or more, and together at most 1"
            )


Proof = Literal["answer", "passages", "either"]


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """Which rewritings are kept."""

    proof: Proof = "either"
    """What shows that a rewriting is good: answer (the final answer was right, as in the paper), passages (what was
    read holds the answer), or either."""

    copies: float = 0.3
    """The largest share of questions that are their own rewriting."""

    seed: int = 0
    """Draws which copies are kept, and the order of the rows."""

    def __post_init__(self) -> None:
        if not 0 <= self.copies < 1:
            raise ConfigurationError(f"copies is a share from 0 to below 1, not {self.copies}")


ValueModel = Literal["shared", "copy"]

_ABOVE = (
    "iterations",
    "episodes",
    "batch",
    "sample_batch",
    "epochs",
    "temperature",
    "prompt_tokens",
    "reply_tokens",
    "beams",
    "validate_every",
    "checkpoint_every",
    "clip",
    "max_norm",
    "collapse_kl",
    "collapse_invalid",
    "collapse_length",
)
"""The settings that must be above 0."""


@dataclass(frozen=True, kw_only=True)
class Optimising(Precise):
    """The settings of PPO. "Official" is the configuration that the paper's authors published."""

    iterations: int = 50
    """Rounds of sampling and improving; 50 in the official configuration."""

    episodes: int = 256
    """Replies an iteration; the official 512 steps in 10 environments are about as many short queries."""

    replies: int = 1
    """Replies to each question of an iteration. With more than 1, a reply's score counts by how far it is above the
    mean of the others to its question: how hard a question is then says nothing, and less noise is learnt from. The
    replies to a question that all score the same are left out of the update."""

    batch: int = 16
    """Replies of one optimizer step; 16 in the official configuration."""

    sample_batch: int = 64
    """Replies that are sampled at once; less takes less memory."""

    epochs: int = 2
    """Passes over an iteration's replies; 2 to 3 in the official configuration."""

    learning_rate: float = 2e-6
    """The learning rate at the beginning, which falls linearly to zero; 2e-6 in the official configuration."""

    temperature: float = 1.0
    """The temperature of sampling."""

    beams: int = 1
    """With more than 1, the best reply of a beam search instead of a sample, as in the official configuration. Then the
    replies are not those of the policy, which contradicts equation 2."""

    prompt_tokens: int = 512
    """The most tokens of a prompt."""

    reply_tokens: int = 50
    """The most tokens of a reply."""

    beta: float = 0.001
    """The coefficient of the KL penalty at the beginning."""

    target: float | None = 0.2
    """The divergence a reply, in nats, that the coefficient is adapted to; none keeps it as it is."""

    gamma: float = 1.0
    """The discount of later rewards; 0.99 in the official configuration."""

    lam: float = 0.95
    """Lambda of generalised advantage estimation."""

    clip: float = 0.2
    """Epsilon: how far the ratio and the values may move in one iteration and still gain."""

    value_coefficient: float = 0.5
    """lambda_v of equation 5, the weight of the value loss."""

    value: ValueModel = "shared"
    """Whether the value head is on the policy's own layers (shared) or on a copy of them (copy, as in the paper)."""

    whiten_rewards: bool = False
    """Scale the rewards of an iteration to unit variance; their mean stays."""

    no_end: float | None = -1.0
    """The score of a reply without an end token, whatever it says; none judges it like the others."""

    max_norm: float = 0.5
    """The largest norm of a step's gradient; a larger one is scaled down."""

    collapse_kl: float = 20.0
    """The divergence a reply, in nats, from which an iteration counts as a collapse."""

    collapse_invalid: float = 0.5
    """The share of replies that are empty, invalid or without an end from which an iteration counts as a collapse."""

    collapse_length: float = 5.0
    """The factor by which the mean length of replies may grow or shrink, against that of the first iteration, before
    an iteration counts as a collapse."""

    validate_every: int = 5
    """Iterations between measurements on the validation questions, with greedy replies; the last one is measured
    too."""

    checkpoint_every: int = 1
    """Iterations between checkpoints."""

    seed: int = 0
    """Draws the questions and the samples."""

    threads: int | None = None
    """Processor threads; all cores by default."""

    def __post_init__(self) -> None:
        for name in _ABOVE:
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} must be above 0, not {getattr(self, name)}")
        for name in ("beta", "value_coefficient"):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} must be 0 or more, not {getattr(self, name)}")
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigurationError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        if self.target is not None and not self.target > 0:
            raise ConfigurationError(f"target must be above 0, or none to keep beta as it is, not {self.target}")
        if self.replies < 1 or self.episodes % self.replies:
            raise ConfigurationError(f"episodes must be a multiple of replies, not {self.episodes} of {self.replies}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigurationError(f"learning_rate must be above 0, not {self.learning_rate}")
