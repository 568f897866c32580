"""Every option, defined once for the command line, the configuration file and Python.

Each class holds the options of one subject. A command's order combines several of them. The text under a field is its
only description: `app.signature` reads it for the help, for `reground.ask` and for the reference. A field's metadata
says what the command line cannot infer from its name and type (`app.cli.flags.Look`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reground.app.options_documents import Documents, Language, Searching
from reground.app.options_web import Web
from reground.core.budget import Budget
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel
from reground.evaluation.questions import Sample
from reground.models.options import ModelOptions

if TYPE_CHECKING:  # types of options that exist only in Python
    from reground.core.run import Observer
    from reground.retrieval.settings import IndexReport, Progress

DEFAULT_MODEL = "gguf/qwen2.5-coder-1.5b"
"""The smallest model that answers most of the demo's questions; docs/reproduction/reader.md has the measurements."""
DEFAULT_METHOD = "rag"
"""The cheapest method that none has been shown to beat on small models; docs/reproduction has the measurements."""

_MODEL, _SEARCH = {"panel": "Model"}, {"panel": "Search"}
_PYTHON = {"python_only": True}

AnyModel = str | LanguageModel | Callable[[str], str | Awaitable[str]]
"""A model's name, a model, or a function from prompt to reply."""


@dataclass(frozen=True, kw_only=True)
class MethodName:
    """The method."""

    method: str = field(default=DEFAULT_METHOD, metadata={"short": "-m"})
    """A method's name, name+preset, or the path of your own .py file; see `reground methods`. A hyphen may stand for an
    underscore."""


@dataclass(frozen=True, kw_only=True)
class ModelName:
    """The model."""

    model: AnyModel = DEFAULT_MODEL
    """provider/model; see `reground models`. In Python also a function from prompt to reply, plain or async, or your
    own LanguageModel."""


@dataclass(frozen=True, kw_only=True)
class Rewriter:
    """The model that rewrites queries."""

    rewriter: AnyModel | None = field(default=None, metadata=_MODEL)
    """The model (provider/model) that rewrites queries, for methods that have a rewriter. It uses the same server
    options. By default --model rewrites them."""


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """Whether to reuse a recorded run."""

    fresh: bool = False
    """Start from the beginning and discard what an earlier run recorded."""


@dataclass(frozen=True, kw_only=True)
class Work(ModelName, Searching):
    """The model, the documents, the settings and the budget."""

    corpus: Path | str | Retriever | Sequence[str | Path | Passage] | None = field(
        default=None, metadata={"short": "-c"}
    )
    """A folder of documents, a JSONL file, or an index. In Python also your own Retriever, or a list of texts, passages
    and paths."""

    settings: Mapping[str, object] | None = field(default=None, metadata={"name": "--set", "metavar": "KEY=VALUE"})
    """A setting of the method, e.g. k=3; `reground methods NAME` lists them. May be repeated. A value set here is never
    changed."""

    model_options: ModelOptions | Mapping[str, Any] | None = field(default=None, metadata=_MODEL)
    """Where and how to reach the model."""

    budget: Budget | int | Mapping[str, Any] | None = field(
        default=None, metadata={"prefix": "budget_", "min": 1, "panel": "Budget"}
    )
    """The most that one question may cost; a plain number means tokens."""


@dataclass(frozen=True, kw_only=True)
class Planning(Work):
    """The critics of methods that plan."""

    critic: str | None = None
    """The critics of a planning method: prompted, random, first, trained:FOLDER or fixed:STATE=GOAL,...; for single
    kinds doc=trained:FOLDER,subgoal=prompted. It is the setting `critic` under another name."""

    def __post_init__(self) -> None:
        if self.critic is not None:
            object.__setattr__(self, "settings", {**(self.settings or {}), "critic": self.critic})


@dataclass(frozen=True, kw_only=True)
class Ask(MethodName, Planning, Rewriter, Fresh, Web):
    """The options of `ask`."""

    question: str = field(kw_only=False, metadata={"argument": True})
    """The question."""

    form: str | None = None
    """The form of the answer: text, phrase, choice, number, program, pal, plan or article; else the method's own."""

    support: str = "words"
    """How the sentences of the answer are checked against the passages: words, which asks no model; critic:FOLDER,
    cross-encoder:NAME or embedding:NAME; model, which asks the answering model, within the budget; or none."""

    support_threshold: float | None = field(default=None, metadata={"file": True})
    """The score from which on a sentence counts as supported, for checks with a model: a probability, 0.5 by default,
    or for embeddings a cosine, 0.65 by default."""

    trace: Path | str | None = None
    """Append the trajectory to this JSONL file."""

    seed: int | None = None
    """The seed for sampled calls, in methods that sample; by default the model draws its own."""

    home: Path | None = field(default=None, metadata=_PYTHON)
    """The folder for runs; the user's state folder by default."""

    observer: Observer | None = field(default=None, metadata=_PYTHON)
    """Called with every event while the method works."""

    on_index: Callable[[Progress], None] | None = field(default=None, metadata=_PYTHON)
    """Called with progress while the corpus is indexed."""

    on_report: Callable[[IndexReport], None] | None = field(default=None, metadata=_PYTHON)
    """Called with the report of the indexing, before the method begins."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """The place of the benchmarks."""

    data: Path | None = None
    """The folder of the benchmarks, or hub; by default REGROUND_DATA, then ./data."""


@dataclass(frozen=True, kw_only=True)
class Benchmark(Data, Documents, Work, Sample):
    """The options of every command on a benchmark; the model and the documents are given by name or path."""

    task: str = field(metadata={"short": "-t"})
    """A benchmark's name, or scheme:DIR."""

    model: str = DEFAULT_MODEL
    """provider/model; see `reground models`."""

    sandbox: str = "bubblewrap"
    """The sandbox that runs generated code: bubblewrap or docker."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder of the run; a folder in ./runs by default."""

    settings: Mapping[str, object] = field(default_factory=dict)
    model_options: ModelOptions = field(default_factory=ModelOptions)
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, kw_only=True)
class Trees(Benchmark):
    """The options of a command that collects trees."""

    limit: int = 20
    """The number of questions, drawn by the seed; 0 means all."""

    concurrency: int = 4

    simulations: int = field(default=32, metadata={"min": 1, **_SEARCH})
    """Simulations per tree."""

    in_flight: int = field(default=4, metadata={"min": 1, **_SEARCH})
    """Simulations of one tree that run at once."""

    exploration: float = field(default=2**0.5, metadata={"min": 0, **_SEARCH})
    """The constant c of UCB1: a higher value explores untried moves more."""

    rollout: Literal["answer", "first"] = field(default="answer", metadata=_SEARCH)
    """How a simulation ends: answer forces the answer at once; first plans on with the first candidate each time."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """The address of a server, for commands that need no other model option."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata={"only": ("base_url",)})
    """Where and how to reach the model."""


@dataclass(frozen=True, kw_only=True)
class Demo(MethodName, ModelName, Fresh, Served):
    """The options of `demo`."""

    question: str | None = field(default=None, metadata={"argument": True})
    """The number of one of its 20 questions, 2 by default; or your own question about the demo's articles."""

    model: str = DEFAULT_MODEL

    every: bool = field(default=False, metadata={"name": "--all"})
    """Ask all 20 questions and say how many were right."""

    listed: bool = field(default=False, metadata={"name": "--list"})
    """List the 20 questions and their answers, and ask none."""


@dataclass(frozen=True, kw_only=True)
class Index(Language, Data, Served):
    """The options of `index`."""

    source: Path = field(metadata={"argument": True})
    """A folder of documents, a JSONL file or a BEIR folder."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder for the index. With --report it may be left out: the index that `ask` keeps is brought up to date."""

    report: bool = False
    """List every file that was not read, or only in part, and why."""

    retrieval: Literal["bm25", "hybrid", "best"] | None = None
    """The kind of index and the embedding model by a name, as `ask --retrieval` has it."""

    kind: str = "bm25"
    """The kind of index: bm25, dense or hybrid."""

    chunk_tokens: int = field(default=2000, metadata={"min": 16})
    """The most tokens in one chunk."""

    overlap: int = field(default=100, metadata={"file": True, "min": 0})
    """Tokens that neighbouring chunks share."""

    embedder: str | None = None
    """The embedding model, for dense and hybrid: onnx/minilm, onnx/<folder>, openai/<model> or
    st/<model>."""

    decontaminate: list[str] | None = field(default=None, metadata={"metavar": "TASK"})
    """Drop chunks that contain solutions of this benchmark; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """Whether to show progress."""

    quiet: bool = field(default=False, metadata={"short": "-q"})
    """Show no progress."""


@dataclass(frozen=True, kw_only=True)
class Json:
    """Whether results are printed as JSON."""

    as_json: bool = field(default=False, metadata={"name": "--json"})
    """Print only JSON."""


@dataclass(frozen=True, kw_only=True)
class Printed(Json):
    """How an answer is printed."""

    steps: bool = False
    """Show the steps too: each draft, the evidence, and what was corrected."""
