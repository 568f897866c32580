"""The settings of PPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from reground.core.errors import ConfigurationError
from reground.training.fitting import Precise

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
