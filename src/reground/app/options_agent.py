"""The options of `train agent`, a class for each stage; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import DEFAULT_MODEL, Benchmark, ModelName
from reground.app.options_cluster import Cluster
from reground.app.options_training import FineTuning, FitNamed, TrainingFolder, TrainingSplits
from reground.models.options import ModelOptions
from reground.training.settings import Demonstrating


@dataclass(frozen=True, kw_only=True)
class AgentFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/agent")


@dataclass(frozen=True, kw_only=True)
class AgentGrow(AgentFolder, Benchmark, Cluster):
    """The options of `train agent grow`."""

    limit: int = 160
    """The number of questions, drawn by the seed; 0 means all."""

    repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each question."""


@dataclass(frozen=True, kw_only=True)
class AgentDemonstrate(AgentFolder, Demonstrating, TrainingSplits):
    """The options of `train agent demonstrate`."""


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
    """The most rows of what was grown; all by default."""

    add: str = ""
    """Files with other demonstrations to teach too, separated by commas, such as those of an oracle or of a reader.
    With them nothing needs to be grown."""

    seed: int = 0
    """Draws the rows and their order."""


@dataclass(frozen=True, kw_only=True)
class AgentTuning(FineTuning):
    """The options of every fit of the agent."""

    max_length: int = field(default=2048, metadata={"min": 16})
    """The most tokens of a row; rows that are longer are left out."""


@dataclass(frozen=True, kw_only=True)
class AgentFit(AgentFolder, AgentTuning, FitNamed):
    """The options of `train agent fit`. Every generation begins with the base again."""


@dataclass(frozen=True, kw_only=True)
class AgentLoop(AgentGrow, AgentTuning):
    """The options of `train agent loop`."""

    generations: int = field(default=2, metadata={"min": 1})
    """How often the agent learns from its own trajectories."""

    bases: str = "smollm2"
    """The weights to fit in every generation, separated by commas. The first base's model grows the next generation;
    the others are its students."""

    repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each question from the second generation on; the first has one."""

    by: Literal["perplexity", "ranking"] = "ranking"
    """What chooses a step's sample: the lowest perplexity, or a ranking."""

    ranker: str | None = None
    """provider/model of the judge of the samples; --model by default."""

    style: Literal["rank", "judge"] = "rank"
    """Show all samples of a step at once, in rotated order, or judge each by itself."""

    judge: str | None = None
    """provider/model that rates long answers, as in `eval`."""

    validation: str | None = "bamboogle"
    """A benchmark that chooses among the passes of each fit and is measured; none keeps the last pass."""

    validation_limit: int = field(default=40, metadata={"min": 1})
    """Its questions, drawn by the seed."""

    test_task: str | None = None
    """A benchmark that chooses nothing and is measured at the end of each fit."""

    test_limit: int = field(default=100, metadata={"min": 1})
    """Its questions, drawn by the seed."""

    measure_repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each measured question; with more than one, standard deviations are reported."""

    no_control: bool = False
    """Do not fit the last base also on as many steps whose sample is drawn by chance."""

    no_untrained: bool = False
    """Do not measure the bases before training, without an example in the prompt and with one."""
