"""The options of the commands that measure: `eval`, `compare`, `report`, `judge` and `questions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options import DEFAULT_MODEL, Benchmark, Data, Fresh, MethodName, Planning, Rewriter
from reground.app.options_cluster import Cluster
from reground.app.options_documents import Language
from reground.app.options_web import Web
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError
from reground.evaluation.questions import MEASURED, Questions
from reground.models.options import ModelOptions

_MODEL, _COST, _PAIRS = ({"panel": title} for title in ("Model", "Cost", "Blind pairs"))


@dataclass(frozen=True, kw_only=True)
class Results:
    """How results are printed."""

    format: Literal["text", "md", "json"] = "text"
    """How the results are printed. text is for the terminal; the others print nothing else, to be redirected to a
    file."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The baseline of a comparison."""

    baseline: str | None = None
    """The method that the others are tested against; the first one by default."""


@dataclass(frozen=True, kw_only=True)
class Measuring(Benchmark, Planning, Questions, Rewriter, Results, Web, Cluster):
    """The options that `eval` and `compare` share."""

    task: str = field(default="", metadata={"short": "-t"})
    """A benchmark's name, or scheme:DIR."""

    questions: Path | None = None
    """Questions of your own instead of a benchmark: JSONL or CSV with question, answer (or answers), and perhaps id and
    passages. All are taken unless --limit says otherwise."""

    limit: int | None = None
    """The number of questions, drawn by the seed; 0 means all. The default is 100, or all questions of --ids or
    --questions."""

    rewriter: str | None = None

    judge: str | None = field(default=None, metadata=_MODEL)
    """The model (provider/model) that rates long answers. It uses the same server options."""

    dry_run: bool = field(default=False, metadata=_COST)
    """Print the estimated cost and stop."""

    speed: float | None = field(default=None, metadata={"min": 0.001, **_COST})
    """Tokens per second, to estimate the time."""

    yes: bool = field(default=False, metadata={"short": "-y", **_COST})
    """Do not ask for confirmation before spending more than 1 USD."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.questions is not None:
            if self.task:
                raise ConfigurationError("give --task or --questions, not both")
            object.__setattr__(self, "task", f"{MEASURED}:{self.questions}")


@dataclass(frozen=True, kw_only=True)
class Evaluate(MethodName, Measuring):
    """The options of `eval`."""


@dataclass(frozen=True, kw_only=True)
class Compare(Measuring, Baseline):
    """The options of `compare`."""

    preset: str | None = None
    """Experiments instead of a task: the papers' tables. paper-claims, or those of one paper: rat-claims,
    rar-claims, cr_planner-claims, search_agent-claims, rewriter-claims."""

    methods: str = field(default="direct,cot,rag,rar", metadata={"short": "-m"})
    """The methods to compare, separated by commas."""

    budgets: str | None = field(default=None, metadata={"short": "-b"})
    """Token budgets per question, separated by commas: 1k,2k,4k; none means no budget. The default is 1k,2k,4k, or a
    preset's own."""

    budget: Budget = field(default_factory=Budget, metadata={"only": ("calls", "seconds", "usd")})

    tune: int = field(default=0, metadata={"min": 0})
    """Choose each method's size on this number of training questions; 0 takes the largest that is expected to fit."""

    tune_task: str | None = field(default=None, metadata={"file": True})
    """The training split to tune on; the task's own by default."""


@dataclass(frozen=True, kw_only=True)
class Report(Baseline, Results):
    """The options of `report`."""

    folders: list[Path] = field(metadata={"argument": True})
    """Run folders, or folders that contain run folders."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder for report.md and the plots; the first folder by default."""

    by: str | None = None
    """Also group the results by this field of the questions' metadata."""


@dataclass(frozen=True, kw_only=True)
class Judging(Data):
    """The options of `judge`."""

    folders: list[Path] = field(metadata={"argument": True})
    """Run folders, or folders that contain run folders."""

    judges: str = field(default="", metadata={"short": "-j"})
    """The models (provider/model) that rate the answers, separated by commas."""

    page: Path | None = field(default=None, metadata=_PAIRS)
    """Write a page to this file on which people compare two answers at a time, not knowing whose they are, and stop."""

    votes: list[Path] = field(default_factory=list, metadata=_PAIRS)
    """A file of votes that somebody saved on such a page. May be repeated; judges compare the pairs too."""

    pairs: bool = field(default=False, metadata=_PAIRS)
    """Let the judges compare two answers at a time, without people."""

    seed: int = field(default=0, metadata=_PAIRS)
    """Draws the order of the page's pairs, and which answer is A."""

    tasks: str = ""
    """The runs' tasks that are in files of your own, FILE.py or FILE.py:NAME, separated by commas."""

    people: Path | None = None
    """People's ratings: JSONL with {"id": "RUN/QUESTION~REPEAT", "rating": 1}."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder for judges.md or pairs.md and the judges' replies; the first folder by default."""

    concurrency: int = field(default=8, metadata={"min": 1})
    """Answers in work at once."""

    dry_run: bool = False
    """Print the number of answers to rate and stop."""

    model_options: ModelOptions = field(default_factory=ModelOptions)
    """Where and how to reach the models."""


@dataclass(frozen=True, kw_only=True)
class Propose(Language, Fresh):
    """The options of `questions`."""

    corpus: Path = field(metadata={"short": "-c"})
    """A folder of documents or a JSONL file."""

    out: Path = field(default=Path("questions.jsonl"), metadata={"short": "-o"})
    """The file for the questions, one a line. A file that was edited is never replaced."""

    count: int = field(default=50, metadata={"short": "-n", "min": 1})
    """How many questions to propose."""

    tries: int | None = field(default=None, metadata={"min": 1})
    """The most pairs of passages to try; ten for each question by default."""

    seed: int = 0
    """Draws the pairs of passages."""

    concurrency: int = field(default=4, metadata={"short": "-j", "min": 1})
    """Pairs in work at once."""

    model: str = DEFAULT_MODEL
    """provider/model; see `reground models`."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata=_MODEL)
    """Where and how to reach the model."""

    budget: Budget = field(default_factory=Budget, metadata={"prefix": "budget_", "min": 1, "panel": "Budget"})
    """The most that all questions together may cost."""
