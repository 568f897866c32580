"""Every option once: an option of the command line, a key of the configuration file, a keyword in Python.

A class holds the options of one subject; a command's order is put together from them. The words under a field are all
that is said of it anywhere: `app.meanings` reads them for the help, for `reground.ask` and for the reference. The
metadata of a field is what the command line cannot tell from its name and type (`app.cli.flags.Look`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reground.core.budget import Budget
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel
from reground.evaluation.questions import Questions, Sample
from reground.models.options import ModelOptions

if TYPE_CHECKING:  # types of what only Python can give
    from reground.core.events import Observer
    from reground.retrieval.settings import IndexReport, Progress

DEFAULT_MODEL = "gguf/smollm2"
DEFAULT_METHOD = "rar"

_MODEL, _COST, _SEARCH = ({"panel": title} for title in ("Model", "Cost", "Search"))
_PYTHON = {"python_only": True}

AnyModel = str | LanguageModel | Callable[[str], str | Awaitable[str]]
"""A model's name, a model, or a function from prompt to reply."""


@dataclass(frozen=True, kw_only=True)
class MethodName:
    """Which method."""

    method: str = field(default=DEFAULT_METHOD, metadata={"short": "-m"})
    """A method's name, name+preset, or a file of your own that ends in .py; see `reground methods`."""


@dataclass(frozen=True, kw_only=True)
class ModelName:
    """Which model."""

    model: AnyModel = DEFAULT_MODEL
    """provider/model; see `reground models`. In Python also a function from prompt to reply, plain or async, or a
    LanguageModel of your own."""


@dataclass(frozen=True, kw_only=True)
class Rewriter:
    """Who rewrites queries."""

    rewriter: AnyModel | None = field(default=None, metadata=_MODEL)
    """A model (provider/model) that rewrites queries, for methods that take one; same server options. Without it the
    model itself does."""


@dataclass(frozen=True, kw_only=True)
class Language:
    """What the documents are written in."""

    language: str | None = None
    """The documents' language, by code or English name: de, ja, ...; English unless said."""


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """Whether what is recorded counts."""

    fresh: bool = False
    """Ask again from the beginning, whatever was recorded before."""


@dataclass(frozen=True, kw_only=True)
class Work(ModelName, Language):
    """Who works, on what, and for how much."""

    corpus: Path | str | Retriever | Sequence[str | Path | Passage] | None = field(
        default=None, metadata={"short": "-c"}
    )
    """Documents (a folder), a JSONL file or an index. In Python also a Retriever of your own, or a list of texts,
    passages and paths."""

    settings: Mapping[str, object] | None = field(default=None, metadata={"name": "--set", "metavar": "KEY=VALUE"})
    """A setting of the method, e.g. k=3; `reground methods NAME` lists them. May be repeated. What is set stays as it
    is when a token budget scales the method."""

    model_options: ModelOptions | Mapping[str, Any] | None = field(default=None, metadata=_MODEL)
    """Where and how to reach the model."""

    budget: Budget | int | Mapping[str, Any] | None = field(
        default=None, metadata={"prefix": "budget_", "min": 1, "panel": "Budget"}
    )
    """The most that a question may cost; a number is tokens. A limit on tokens scales the method to it."""


@dataclass(frozen=True, kw_only=True)
class Ask(MethodName, Work, Rewriter, Fresh):
    """All that can be said of one question."""

    question: str = field(kw_only=False, metadata={"argument": True})
    """The question."""

    form: str | None = None
    """What an answer looks like: text, phrase, choice, number, program, pal, plan; else what suits the method."""

    trace: Path | str | None = None
    """Add the trajectory to this JSONL file."""

    seed: int | None = None
    """What the seeds of sampled calls come from, where a method draws any; without it they are left to the model."""

    home: Path | None = field(default=None, metadata=_PYTHON)
    """Where runs are kept, instead of the user's state folder."""

    observer: Observer | None = field(default=None, metadata=_PYTHON)
    """Called with every event while the method works."""

    on_index: Callable[[Progress], None] | None = field(default=None, metadata=_PYTHON)
    """Called with progress while the corpus is indexed."""

    on_report: Callable[[IndexReport], None] | None = field(default=None, metadata=_PYTHON)
    """Called with what the indexing came to, before the method begins."""


@dataclass(frozen=True, kw_only=True)
class Demo(MethodName, ModelName, Fresh):
    """What the demonstration can be told."""

    question: str | None = field(default=None, metadata={"argument": True})
    """A question of your own about the demo's articles."""

    model: str = DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What is compared with what."""

    baseline: str | None = None
    """What others are tested against; the first method unless said."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where benchmarks are."""

    data: Path | None = None
    """The benchmarks' folder, or hub; else REGROUND_DATA, else ./data."""


@dataclass(frozen=True, kw_only=True)
class Benchmark(Data, Work, Sample):
    """What every command on a benchmark asks for; its model and documents have names."""

    task: str = field(metadata={"short": "-t"})
    """A benchmark's name, or scheme:DIR."""

    model: str = DEFAULT_MODEL
    """provider/model; see `reground models`."""

    corpus: Path | None = None
    """Documents or an index; else the task's own corpus."""

    sandbox: str = "bubblewrap"
    """Where generated code runs: bubblewrap or docker."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The run's folder; below ./runs unless said."""

    settings: Mapping[str, object] = field(default_factory=dict)
    model_options: ModelOptions = field(default_factory=ModelOptions)
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, kw_only=True)
class Measuring(Benchmark, Questions, Rewriter):
    """What `eval` and `compare` ask for."""

    limit: int | None = None
    """How many questions, drawn by the seed; 0 is all. 100 unless said; all of --ids."""

    rewriter: str | None = None

    judge: str | None = field(default=None, metadata=_MODEL)
    """A model (provider/model) that rates long answers; same server options."""

    dry_run: bool = field(default=False, metadata=_COST)
    """Say what it would cost and stop."""

    speed: float | None = field(default=None, metadata={"min": 0.001, **_COST})
    """Tokens a second, to estimate the time."""

    yes: bool = field(default=False, metadata={"short": "-y", **_COST})
    """Do not ask before spending over 1 USD."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(MethodName, Measuring):
    """What `eval` asks for."""


@dataclass(frozen=True, kw_only=True)
class Compare(Measuring, Baseline):
    """What `compare` asks for."""

    methods: str = field(default="direct,cot,rag,rar", metadata={"short": "-m"})
    """Names, with commas between."""

    budgets: str = field(default="1k,2k,4k", metadata={"short": "-b"})
    """Tokens a question, with commas: 1k,2k,4k; none is no budget."""

    budget: Budget = field(default_factory=Budget, metadata={"only": ("calls", "seconds", "usd")})

    tune: int = field(default=0, metadata={"min": 0})
    """Choose each method's size on this number of training questions; 0 takes its defaults, cut to fit."""

    tune_task: str | None = None
    """The training split to tune on; the task's own unless said."""


@dataclass(frozen=True, kw_only=True)
class Report(Baseline):
    """What `report` asks for."""

    folders: list[Path] = field(metadata={"argument": True})
    """Run folders, or folders that hold some."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """Where report.md and the plots go; the first folder unless said."""

    by: str | None = None
    """Also by this field of the questions' metadata."""


@dataclass(frozen=True, kw_only=True)
class Trees(Benchmark):
    """What `train trees` asks for."""

    limit: int = 20
    """How many questions, drawn by the seed; 0 is all."""

    concurrency: int = 4

    simulations: int = field(default=32, metadata={"min": 1, **_SEARCH})
    """Simulations a tree."""

    in_flight: int = field(default=4, metadata={"min": 1, **_SEARCH})
    """Simulations of a tree at once."""

    exploration: float = field(default=2**0.5, metadata={"min": 0, **_SEARCH})
    """c of UCB1: how much untried moves are preferred."""

    rollout: Literal["answer", "first"] = field(default="answer", metadata=_SEARCH)
    """How a simulation ends: with the answer at once, or planning on with the first of all candidates."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """Where a server is, for commands that need no more of it."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata={"only": ("base_url",)})
    """Where and how to reach the model."""


@dataclass(frozen=True, kw_only=True)
class Index(Language, Data, Served):
    """What `index` asks for."""

    source: Path = field(metadata={"argument": True})
    """A folder of documents, a JSONL file or a BEIR folder."""

    out: Path = field(metadata={"short": "-o"})
    """Where the index goes (a folder)."""

    kind: str = "bm25"
    """bm25, dense or hybrid."""

    chunk_tokens: int = field(default=2000, metadata={"min": 16})
    """Most tokens a piece."""

    overlap: int = field(default=100, metadata={"min": 0})
    """Tokens shared by neighbouring pieces."""

    embedder: str | None = None
    """openai/<model> or st/<model>."""

    decontaminate: list[str] | None = field(default=None, metadata={"metavar": "TASK"})
    """Drop pieces that hold this benchmark's solutions; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """How much is said."""

    quiet: bool = field(default=False, metadata={"short": "-q"})
    """No progress."""


@dataclass(frozen=True, kw_only=True)
class Json:
    """For whom results are printed."""

    as_json: bool = field(default=False, metadata={"name": "--json"})
    """Print JSON and nothing else."""
