"""Every option, written once for the command line, the configuration file and Python; and how its field is read.

Each class holds the options of one subject, and a command's options combine several of them. The text under a field is
its only description: help, `reground.ask` and the reference show it. A field's metadata says what the command line
cannot infer from its name and type (`app.cli.flags.Option`).
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, RegroundError, did_you_mean
from reground.core.evidence import Passage, Retriever
from reground.core.files import expanded
from reground.core.language import LanguageModel
from reground.core.run import Observer
from reground.evaluation.questions import MEASURED, Questions, Sample
from reground.models import LOCAL_SERVERS, PAID
from reground.models.options import ModelOptions
from reground.models.pull import ALIASES
from reground.retrieval.filters import Globs
from reground.retrieval.settings import IndexReport, IndexSettings, Progress
from reground.retrieval.storage import holds_index

P = ParamSpec("P")
T = TypeVar("T")
Options = TypeVar("Options")

DEFAULT_MODEL = "gguf/qwen2.5-coder-1.5b"
"""The smallest model that answers most of the demo's questions; docs/reproduction/reader.md has the measurements."""
DEFAULT_READER = "gguf/reader"
"""The same model, trained to read passages: for answers that are a phrase."""
DEFAULT_METHOD = "rag"
"""The cheapest method that none has been shown to beat on small models; docs/reproduction has the measurements."""

_MODEL, _RERANK, _WEB, _CLUSTER, _SEARCH, _COST = (
    {"panel": title} for title in ("Model", "Retrieval", "Web", "Cluster", "Search", "Cost")
)
_FOUND = {"found": True}
_BUDGET = {"panel": "Budget", "prefix": "budget_", **_FOUND}
_GLOB = {"metavar": "GLOB", "found": str.isprintable}
_FILE = {"file": True}
_SET = {"name": "--set", "metavar": "KEY=VALUE", **_FOUND}
_PYTHON = {"python_only": True}

_PLAIN = () if os.environ.get("REGROUND_DEBUG") else (RegroundError,)
"""Errors whose message says it all: the frames of calls inside are left out."""
_WORDS = re.compile(r"\A[\w+-]{1,60}+(?:\.\d[\w+-]{0,30}+)?+(?:, ?[\w+-]{1,60}+){0,20}+")
_MODEL_NAME = re.compile(r"\A\w[\w.:@+-]{0,99}+(?:/\w[\w.:@+-]{0,99}+){0,3}+")


def is_word(text: str) -> bool:
    """Whether this is a number, a word, or several words between commas: no path, no address and no file of code."""
    return _WORDS.fullmatch(text) is not None


def is_known_model(text: str) -> bool:
    """Whether this names a model that comes with a checked download, or one at a provider's own address."""
    provider, _, name = text.partition("/")
    if provider == "gguf":
        return name.lower() in ALIASES
    return text == "none" or (provider in (*LOCAL_SERVERS, *PAID) and _MODEL_NAME.fullmatch(name) is not None)


def is_inside(text: str) -> bool:
    """Whether this is the path of documents inside the current folder, alone or behind a name (NAME=PATH).

    An index is none: it may name a server that gets every question.
    """
    here = Path.cwd().resolve()
    # unlike `resolve`, it raises nothing where links lead to each other
    places = (Path(os.path.realpath(here / expanded(path))) for path in (text, text.partition("=")[2] or text))
    fits = (place.is_relative_to(here) and not (place.is_dir() and holds_index(place)) for place in places)
    return text.isprintable() and "://" not in text and text != "-" and all(fits)


AnyModel = str | LanguageModel | Callable[[str], str | Awaitable[str]]
"""A model's name, a model, or a function from prompt to reply."""


def field_names(cls: type) -> list[str]:
    """The fields of a dataclass or a pydantic model: first those of its bases, from left to right, then its own.

    Empty for any other class.
    """
    inherited = [name for base in cls.__bases__ for name in field_names(base)]
    own = getattr(cls, "__dataclass_fields__", None) or getattr(cls, "model_fields", {})
    return list(dict.fromkeys([*inherited, *own]))


@cache
def meanings(cls: type) -> dict[str, str]:
    """The description of each field of a dataclass or a pydantic model, in one line. Fields without one are left out.

    A description is the text under the field, as below, or the entry `name: text` in the docstring of the class, as in
    the methods. A class overrides its bases. Texts under fields need the source file.
    """
    names, texts = field_names(cls), dict[str, str]()
    for base in reversed(cls.__mro__):
        if not inspect.get_annotations(base).keys().isdisjoint(names):
            file = getattr(sys.modules.get(base.__module__), "__file__", None)
            texts |= _entries(base.__doc__ or "", names) | _under_fields(file).get(base.__name__, {})
    return {name: " ".join(texts[name].split()) for name in names if name in texts}


def _entries(docstring: str, names: list[str]) -> dict[str, str]:
    """The entries `name: text` and `name, name: text`; an entry ends with its paragraph."""
    if not any(f"{name}: " in docstring for name in names):
        return {}
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    parts = re.split(rf"(?:^|(?<=\s))((?:{one})(?:, (?:{one}))*): ", docstring)
    return {
        name: text.partition("\n\n")[0]
        for several, text in zip(parts[1::2], parts[2::2], strict=True)
        for name in several.split(", ")
    }


@cache
def _under_fields(file: str | None) -> dict[str, dict[str, str]]:
    """The texts under the fields of each class of a source file; none if there is no such file."""
    try:
        module = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    return {
        node.name: {
            each.target.id: text.value.value
            for each, text in pairwise(node.body)
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        }
        for node in module.body
        if isinstance(node, ast.ClassDef)
    }


def spread(options: Callable[P, Options]) -> Callable[[Callable[[Options], T]], Callable[P, T]]:
    """Let a function of one dataclass take its fields as keywords. Their types and help come from the dataclass."""
    cls: Any = options
    fields = inspect.signature(cls).parameters
    texts = (f"{name}: {text}" for name, text in meanings(cls).items())
    meaning = "\n".join(textwrap.fill(text, 116, subsequent_indent="    ") for text in texts)

    def decorated(function: Callable[[Options], T]) -> Callable[P, T]:
        def filled(*args: Any, **keywords: Any) -> Options:
            others = fields if "model_options" not in fields else {*fields, *field_names(ModelOptions)}
            for name in keywords:
                if name not in others:
                    raise TypeError(f"{function.__name__}() takes no {name!r}; {did_you_mean(name, others)}")
            if inner := {name: keywords.pop(name) for name in list(keywords) if name not in fields}:
                base = keywords.get("model_options") or {}
                keywords["model_options"] = {**base, **inner} if isinstance(base, Mapping) else replace(base, **inner)
            return options(*args, **keywords)

        def call(*args: P.args, **keywords: P.kwargs) -> T:
            try:
                return function(filled(*args, **keywords))
            except _PLAIN as error:
                raise error.with_traceback(None) from None

        async def awaited(*args: P.args, **keywords: P.kwargs) -> Any:
            try:
                return await function(filled(*args, **keywords))  # type: ignore[misc]
            except _PLAIN as error:
                raise error.with_traceback(None) from None

        result: Any = awaited if inspect.iscoroutinefunction(function) else call
        result.__name__ = result.__qualname__ = function.__name__
        result.__doc__ = f"{inspect.getdoc(function)}\n\n{meaning}"
        parameters = (fields[name] for name in field_names(cls))
        result.__signature__ = inspect.Signature(sorted(parameters, key=lambda each: each.kind))
        return result  # type: ignore[no-any-return]

    return decorated


def from_mapping(kind: type[T], values: Mapping[Any, Any], what: str) -> T:
    """Build a dataclass or a pydantic model from named values, ignoring None. Raises ConfigurationError."""
    names = field_names(kind)
    for key in values:
        if key not in names:
            raise ConfigurationError(f"{what} has no {key!r}; {did_you_mean(str(key), names)}")
    arguments = {key: value for key, value in values.items() if value is not None}
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        reasons = getattr(error, "errors", None)
        why = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in reasons()) if reasons is not None else str(error)
        raise ConfigurationError(f"{what} cannot be {arguments!r}: {why}") from None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Which files of a folder are read, and their language."""

    language: str | None = field(default=None, metadata=_FOUND)
    """The language of the documents, as a code or an English name: de, ja, German, ...; English by default."""
    include: list[str] | None = field(default=None, metadata=_GLOB)
    """Read only the files of the folder that this glob fits: *.md for a name anywhere, guide/v2 or guide/**/*.md for
    a path. May be repeated."""
    exclude: list[str] | None = field(default=None, metadata=_GLOB)
    """Leave out the files and folders that this glob fits, as --include has it. May be repeated."""

    @property
    def globs(self) -> Globs:
        """Which files are read."""
        return Globs(tuple(self.include or ()), tuple(self.exclude or ()))


@dataclass(frozen=True, kw_only=True)
class Searching(Reading):
    """How documents are read and searched, and the order of the results."""

    where: str | None = field(default=None, metadata={"metavar": "FILTER", "found": str.isprintable})
    """Search only the documents that fulfil this: 'path:guide/* AND date>=2025-01-01 AND NOT tag:draft'. Fields are
    path, type, modified, and what front matter, e-mails or records of JSONL say."""
    retrieval: Literal["bm25", "hybrid", "best"] | None = field(default=None, metadata=_FOUND | _RERANK)
    """How documents are searched: bm25 (words), hybrid (words and the vectors of a small model) or best (hybrid,
    reranked by links); hybrid and best need the extra hybrid. By default words, reranked by links for an answer, and
    not reranked in evaluations."""
    rerank: str | None = field(default=None, metadata=_FOUND | _RERANK)
    """Put what a search finds into a better order: links (titles that the question or the best documents name),
    critic:FOLDER, cross-encoder:NAME or llama-server:URL."""
    rerank_depth: int | None = field(default=None, metadata={"min": 1, **_FILE, **_FOUND, **_RERANK})
    """The number of first passages that are reranked; 30 by default for links, 20 for the others."""
    rerank_tokens: int | None = field(default=None, metadata={"min": 16, **_FILE, **_FOUND, **_RERANK})
    """The most tokens of a query and a passage that a cross-encoder reads; 128 by default. Fewer take less time."""
    rerank_by: Literal["fused", "score"] = field(default="fused", metadata={**_FILE, **_FOUND, **_RERANK})
    """Order by the reranker's score alone, or fused with the first order by reciprocal rank; links are always by
    score."""


@dataclass(frozen=True, kw_only=True)
class Documents(Searching):
    """The documents of a benchmark, given by path."""

    corpus: Path | None = field(default=None, metadata={"short": "-c", "found": is_inside})
    """Documents or an index; the task's own corpus by default."""


@dataclass(frozen=True, kw_only=True)
class Web:
    """What is searched instead of documents: the web, or a retriever of one's own; and what of pages is read."""

    retriever: str | None = field(default=None, metadata=_WEB)
    """Search with a retriever of your own: FILE.py:NAME, where NAME is a retriever or a function or class that makes
    one, or the name of a plug-in, NAME or NAME:ARGUMENT."""
    web: str | None = field(default=None, metadata=_WEB)
    """Search the web instead of documents: an engine (searxng:URL, brave, serper, tavily, exa, ddgs, searchr1:URL), a
    plug-in, or several with commas between them, of which the first that answers is taken."""
    web_read: Literal["snippets", "pages", "first"] = field(default="pages", metadata={**_FILE, **_FOUND, **_WEB})
    """What of the results is read: snippets, as the engine shows them; pages, of each the part that is closest to the
    query; or the first page that can be read, in pieces of 1,500 tokens, as in RAT."""
    web_words: int = field(default=200, metadata={"min": 1, **_FILE, **_FOUND, **_WEB})
    """The most words that are read of a page."""
    web_network: list[str] | None = field(default=None, metadata={**_FILE, **_WEB})
    """A network of your own, such as 10.1.0.0/16, whose pages may be fetched; else only public addresses are."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where questions are answered, and trees grown."""

    ray: str | None = field(default=None, metadata={"metavar": "ADDRESS", **_CLUSTER})
    """Answer the questions in workers of Ray (the extra ray): local starts them on this machine, auto takes the cluster
    that runs here or that RAY_ADDRESS names, HOST:PORT the one there. --concurrency and the limits on what is asked of
    a server are shared out over the workers."""
    ray_workers: int | None = field(default=None, metadata={"min": 1, **_CLUSTER})
    """The number of workers; by default one for each of the cluster's CPUs, and at most --concurrency."""
    ray_cpus: float = field(default=1.0, metadata={"min": 0.01, **_FILE, **_CLUSTER})
    """The CPUs that Ray keeps free for each worker; less than 1 puts several on one."""


@dataclass(frozen=True, kw_only=True)
class MethodName:
    """The method."""

    method: str = field(default=DEFAULT_METHOD, metadata={"short": "-m", **_FOUND})
    """A method's name, name+preset, or the path of your own .py file; see `reground methods`. A hyphen may stand for an
    underscore."""


@dataclass(frozen=True, kw_only=True)
class ModelName:
    """The model."""

    model: AnyModel = field(default=DEFAULT_MODEL, metadata={"found": is_known_model})
    """provider/model; see `reground models`. In Python also a function from prompt to reply, plain or async, or your
    own LanguageModel."""


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """Whether to reuse a recorded run."""

    fresh: bool = False
    """Start from the beginning and discard what an earlier run recorded."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """The place of the benchmarks."""

    data: Path | None = None
    """The folder of the benchmarks, or hub; by default REGROUND_DATA, then ./data."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """The address of a server, for commands that need no other model option."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata={"only": ("base_url",)})
    """Where and how to reach the model."""


@dataclass(frozen=True, kw_only=True)
class Searched(Searching):
    """What is searched."""

    corpus: str | Path | Retriever | Sequence[str | Path | Passage] | None = field(
        default=None, metadata={"short": "-c", "metavar": "PATH", "found": is_inside}
    )
    """A folder of documents, one file, an index, the address of a web page, or - for text from standard input. In
    Python also your own Retriever, or a list of texts, passages and paths."""


@dataclass(frozen=True, kw_only=True)
class Supported:
    """How sentences are checked, and who is told of the indexing."""

    support: str = field(default="words", metadata=_FOUND)
    """How the sentences of the answer are checked against the passages: words, which asks no model; critic:FOLDER,
    cross-encoder:NAME or embedding:NAME; in `ask` also model, which asks the answering model, within the budget, or
    none."""
    support_threshold: float | None = field(default=None, metadata=_FILE | _FOUND)
    """The score from which on a sentence counts as supported, for checks with a model: a probability, 0.5 by default,
    or for embeddings a cosine, 0.65 by default."""
    on_index: Callable[[Progress], None] | None = field(default=None, metadata=_PYTHON)
    """Called with progress while the corpus is indexed."""
    on_report: Callable[[IndexReport], None] | None = field(default=None, metadata=_PYTHON)
    """Called with the report of the indexing, before the method begins."""


@dataclass(frozen=True, kw_only=True)
class Instructed:
    """How answers are written."""

    instructions: str | None = field(default=None, metadata={"metavar": "FILE|TEXT"})
    """How the answer is to be written, as a text or a file of it: its language, its length, its tone. It is no source
    of facts."""


@dataclass(frozen=True, kw_only=True)
class Work(ModelName, Searched):
    """The model, the documents, the settings and the budget."""

    settings: Mapping[str, object] | None = field(default=None, metadata=_SET)
    """A setting of the method, e.g. k=3; `reground methods NAME` lists them. May be repeated. A value set here is never
    changed."""
    model_options: ModelOptions | Mapping[str, Any] | None = field(default=None, metadata=_MODEL)
    """Where and how to reach the model. In Python each of them may also be given by itself: base_url=..."""
    budget: Budget | int | Mapping[str, Any] | None = field(default=None, metadata=_BUDGET)
    """The most that one question may cost; a plain number means tokens."""


@dataclass(frozen=True, kw_only=True)
class Helped(Work):
    """The helper models of methods."""

    critic: str | None = field(default=None, metadata=_FOUND)
    """The critics of a planning method: prompted, random, first, trained:FOLDER or fixed:STATE=GOAL,...; for single
    kinds doc=trained:FOLDER,subgoal=prompted. It is the setting `critic` under another name."""
    rewriter: AnyModel | None = field(default=None, metadata={"found": is_known_model, **_MODEL})
    """The model (provider/model) that rewrites queries, for methods that have a rewriter. It uses the same server
    options. By default --model rewrites them."""

    def __post_init__(self) -> None:
        if self.critic is not None:
            object.__setattr__(self, "settings", {**(self.settings or {}), "critic": self.critic})


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long the runs of questions are kept."""

    keep: float = field(default=90.0, metadata={"min": 0, **_FILE})
    """Days after which the run of a question that nobody asked again is removed; 0 keeps all. Asked later, it is
    answered and paid for again. Runs of other commands stay."""
    keep_mib: float = field(default=10_000.0, metadata={"min": 1, **_FILE})
    """The most MiB that such runs may take; those that nobody asked for longest are removed first."""


@dataclass(frozen=True, kw_only=True)
class Ask(MethodName, Helped, Fresh, Web, Supported, Instructed, Retention):
    """The options of `ask`."""

    question: str = field(kw_only=False, metadata={"argument": True})
    """The question."""
    form: str | None = field(default=None, metadata=_FOUND)
    """The form of the answer: text, phrase, choice, number, program, pal, plan or article; else the method's own. For a
    phrase the command line takes gguf/reader where no model is named."""
    draft: Path | str | None = None
    """Begin with the text of this file instead of a draft by the model; for the methods that revise one, rar and rat.
    It is the setting `draft`, read from a file."""
    trace: Path | str | None = None
    """Append the trajectory to this JSONL file."""
    seed: int | None = field(default=None, metadata=_FOUND)
    """The seed for sampled calls, in methods that sample; by default the model draws its own."""
    home: Path | None = field(default=None, metadata=_PYTHON)
    """The folder for runs; the user's state folder by default."""
    observer: Observer | None = field(default=None, metadata=_PYTHON)
    """Called with every event while the method works; a `reground.core.run.Listener` hears models write, too."""


@dataclass(frozen=True, kw_only=True)
class Check(MethodName, Work, Fresh, Web, Supported):
    """The options of `check`: an answer, what it is checked against, and how it is mended."""

    text: str | None = field(default=None, kw_only=False)
    """The answer itself."""
    question: str | None = None
    """The question that the answer is to, if it is known: a short answer says little without it."""
    k: int = field(default=5, metadata={"short": "-k", "min": 1, **_FOUND})
    """The most passages of a query."""
    mend: bool = False
    """Let --method revise, with --model, what the documents do not support, and print the mended text. What they
    support stays letter by letter as it is."""
    unsupported: Literal["mark", "remove", "keep"] = "mark"
    """What becomes, with --mend, of a sentence that they do not support and that nothing can take the place of."""
    method: str = field(default="rar", metadata={"short": "-m"})
    """The method that mends, rar or rat."""
    home: Path | None = field(default=None, metadata=_PYTHON)
    """The folder for runs; the user's state folder by default."""
    observer: Observer | None = field(default=None, metadata=_PYTHON)
    """Called with every event while the method works."""


@dataclass(frozen=True, kw_only=True)
class CheckFiles(Check):
    """The options of `check` on the command line, which takes files and several answers too."""

    files: list[Path] | None = field(default=None, metadata={"argument": True})
    """Files, each with an answer as text; by default, and for -, standard input."""
    answers: Path | None = None
    """Many answers: JSONL with text (or answer), and perhaps id and question."""
    html: Path | None = None
    """Write a page to this file: each answer, with its evidence beside each sentence."""
    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The file for the mended text; by default it is printed."""
    fail_under: float = field(default=1.0, metadata={"min": 0})
    """The share of supported claims, from 0 to 1, from which on an answer passes; all of them by default."""


@dataclass(frozen=True, kw_only=True)
class Chat(Ask):
    """The options of `chat`: those of `ask` without the question, and where the conversation is kept."""

    question: str = field(default="", metadata=_PYTHON)

    draft: Path | str | None = field(default=None, metadata=_PYTHON)

    fresh: bool = field(default=False, metadata=_PYTHON)

    conversation: Path | None = None
    """Keep the conversation in this JSONL file; by default in a new file in the user's state folder."""
    resume: bool = False
    """Take up the conversation of --conversation, or else the last one. A question that was cut short goes on where it
    stopped."""


@dataclass(frozen=True, kw_only=True)
class Demo(MethodName, ModelName, Fresh, Served):
    """The options of `demo`."""

    question: str | None = field(default=None, metadata={"argument": True})
    """The number of one of its 20 questions, 15 by default; or your own question about the demo's articles."""
    model: str = DEFAULT_READER

    listed: bool = field(default=False, metadata={"name": "--list"})
    """List the 20 questions and their answers, and ask none."""


@dataclass(frozen=True, kw_only=True)
class Index(Reading, Data, Served):
    """The options of `index`."""

    source: Path = field(metadata={"argument": True})
    """A folder of documents, a JSONL file or a BEIR folder."""
    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder for the index. With --report it may be left out: the index that `ask` keeps is brought up to date."""
    report: bool = False
    """List every file that was not read, or only in part, and why."""
    retrieval: Literal["bm25", "hybrid", "best"] | None = field(default=None, metadata=_FOUND)
    """The kind of index and the embedding model by a name, as `ask --retrieval` has it."""
    kind: str = field(default="bm25", metadata=_FOUND)
    """The kind of index: bm25, dense or hybrid."""
    chunk_tokens: int = field(default=IndexSettings.chunk_tokens, metadata={"min": 16, **_FOUND})
    """The most tokens in one chunk."""
    overlap: int = field(default=IndexSettings.overlap, metadata={"min": 0, **_FOUND})
    """Tokens that neighbouring chunks share."""
    embedder: str | None = None
    """The embedding model, for dense and hybrid: onnx/minilm, onnx/<folder>, openai/<model> or
    st/<model>."""
    batch: int | None = field(default=None, metadata={"min": 1, **_FOUND})
    """The most texts that a server of embeddings (openai/<model>) gets in one request, 64 by default. A server that
    refuses a request of several gets half as many from then on. The index stays the same."""
    decontaminate: list[str] | None = field(default=None, metadata={"metavar": "TASK"})
    """Drop chunks that contain solutions of this benchmark; may be repeated."""


@dataclass(frozen=True, kw_only=True)
class Retrieve(Searched, Web):
    """The options of `retrieve`."""

    query: str = field(metadata={"argument": True})
    """The query."""
    k: int = field(default=10, metadata={"short": "-k", "min": 1, **_FOUND})
    """The most passages."""


@dataclass(frozen=True, kw_only=True)
class Offering(Searching, Web, Instructed):
    """Which methods, over which models and documents, are offered, and what one question may cost."""

    method: list[str] = field(default_factory=lambda: [DEFAULT_METHOD], metadata={"short": "-m", **_FOUND})
    """A method's name, or name+preset. May be repeated; the first is the default."""
    model: list[str] = field(default_factory=lambda: [DEFAULT_MODEL], metadata={"found": is_known_model})
    """provider/model; see `reground models`. May be repeated; the first is the default. none searches and checks alone,
    for POST /retrieve and /v1/check."""
    corpus: list[str] | None = field(
        default=None, metadata={"short": "-c", "metavar": "[NAME=]PATH", "found": is_inside}
    )
    """A folder of documents, one file, an index or a web page, and the name that it is offered by: docs=./handbook; by
    default the folder's own. May be repeated; the first is the default."""
    settings: Mapping[str, object] = field(default_factory=dict, metadata=_SET)
    """A setting of the methods that have it, e.g. k=3, or of one method: rag.k=3. May be repeated."""
    model_options: ModelOptions = field(default_factory=ModelOptions, metadata=_MODEL)
    """Where and how to reach the models."""
    budget: Budget = field(default_factory=Budget, metadata=_BUDGET)
    """The most that one question may cost, whatever a request asks for."""
    support: str = field(default="words", metadata=_FOUND)
    """How the sentences of an answer are checked against the passages, as in `ask`; or none."""
    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1, **_FOUND})
    """Questions in work at once."""
    waiting: int = field(default=64, metadata={"min": 0, **_FILE})
    """Questions that may wait for their turn; further ones are refused."""
    home: Path | None = field(default=None, metadata=_FILE)
    """The folder for runs; the user's state folder by default. A question that was answered before is replayed."""


@dataclass(frozen=True, kw_only=True)
class Serve(Offering, Retention):
    """The options of `serve`."""

    host: str = "127.0.0.1"
    """The address to listen at; by default this machine alone can reach it. Another one needs keys, or --no-keys."""
    port: int = field(default=8767, metadata={"min": 0})
    """The port; 0 takes a free one."""
    keys: Path | None = None
    """The file of API keys, as --new-key writes it; by default keys.jsonl in the user's configuration folder. Where it
    has a key, every request needs one."""
    no_keys: bool = False
    """Ask for no key, whoever can reach the address."""
    allow_origin: list[str] | None = field(default=None, metadata=_FILE)
    """A web page's origin that may ask from a browser, such as https://chat.example.org; or *."""
    system_messages: bool = field(default=False, metadata=_FILE)
    """Whether the system messages of a request, and its instructions, say how its answer is to be written."""
    max_question: int = field(default=20_000, metadata={"min": 1, **_FILE})
    """The most characters of a question."""
    max_body: int = field(default=4, metadata={"min": 1, **_FILE})
    """The largest body of a request, in MiB."""
    heartbeat: float = field(default=10.0, metadata={"min": 0.05, **_FILE})
    """Seconds without news after which a stream gets a comment, so that nothing between takes it for dead."""
    grace: float = field(default=30.0, metadata={"min": 0, **_FILE})
    """After SIGTERM, how long questions in work may take to their end; then they are cancelled."""


@dataclass(frozen=True, kw_only=True)
class Mcp(Offering):
    """The options of `mcp`."""

    http: bool = False
    """Serve by streamable HTTP at http://127.0.0.1:PORT/mcp instead of standard input and output."""
    port: int = field(default=8766, metadata={"min": 0})
    """The port for --http; 0 takes a free one."""
    result_tokens: int = field(default=2000, metadata={"min": 1, **_FILE, **_FOUND})
    """The most tokens of a tool's result, as estimated, where a call asks for no other number; at least 300."""


@dataclass(frozen=True, kw_only=True)
class View:
    """The options of `view`."""

    place: Path = field(kw_only=False, metadata={"argument": True})
    """A run folder or a folder of runs, or a trajectory file (JSONL)."""
    host: str = "127.0.0.1"
    """The address to listen at; by default this machine alone can reach it."""
    port: int = field(default=0, metadata={"min": 0})
    """The port; 0 takes a free one."""
    open: bool = field(default=True, metadata={"name": "--open/--no-open"})
    """Open the page in the browser."""
    export: Path | None = None
    """Write the page with all questions to this HTML file, which needs no server, and end."""


@dataclass(frozen=True, kw_only=True)
class Benchmark(Data, Documents, Work, Sample):
    """The options of every command on a benchmark; the model and the documents are given by name or path."""

    task: str = field(metadata={"short": "-t", **_FOUND})
    """A benchmark's name, or scheme:DIR."""
    model: str = field(default=DEFAULT_MODEL, metadata={"found": is_known_model})
    """provider/model; see `reground models`."""
    sandbox: str = field(default="bubblewrap", metadata=_FILE)
    """The sandbox that runs generated code: bubblewrap or docker."""
    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder of the run; a folder in ./runs by default."""
    settings: Mapping[str, object] = field(default_factory=dict)
    model_options: ModelOptions = field(default_factory=ModelOptions)
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, kw_only=True)
class Results:
    """How results are printed."""

    format: Literal["text", "md", "json"] = field(default="text", metadata=_FOUND)
    """How the results are printed. text is for the terminal; the others print nothing else, to be redirected to a
    file."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The baseline of a comparison."""

    baseline: str | None = field(default=None, metadata=_FOUND)
    """The method that the others are tested against; the first one by default."""


@dataclass(frozen=True, kw_only=True)
class Measuring(Benchmark, Helped, Questions, Results, Web, Cluster):
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

    judge: str | None = field(default=None, metadata={"found": is_known_model, **_MODEL})
    """The model (provider/model) that rates long answers. It uses the same server options."""
    dry_run: bool = field(default=False, metadata=_FOUND | _COST)
    """Print the estimated cost and stop."""
    speed: float | None = field(default=None, metadata={"min": 0.001, **_FILE, **_FOUND, **_COST})
    """Tokens per second, to estimate the time."""
    yes: bool = field(default=False, metadata={"short": "-y", **_COST})
    """Do not ask for confirmation before spending more than 1 USD."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.questions is not None:
            task = f"{MEASURED}:{self.questions}"
            if self.task not in ("", task):
                raise ConfigurationError("give --task or --questions, not both")
            object.__setattr__(self, "task", task)


@dataclass(frozen=True, kw_only=True)
class Evaluate(MethodName, Measuring):
    """The options of `eval`."""


@dataclass(frozen=True, kw_only=True)
class Compare(Measuring, Baseline):
    """The options of `compare`."""

    preset: str | None = None
    """Experiments instead of a task: the papers' tables. paper-claims, or those of one paper: rat-claims,
    rar-claims, cr_planner-claims, search_agent-claims, rewriter-claims."""
    methods: str = field(default="direct,cot,rag,rar", metadata={"short": "-m", **_FOUND})
    """The methods to compare, separated by commas."""
    budgets: str | None = field(default=None, metadata={"short": "-b", **_FOUND})
    """Token budgets per question, separated by commas: 1k,2k,4k; none means no budget. The default is 1k,2k,4k, or a
    preset's own."""
    budget: Budget = field(default_factory=Budget, metadata={"only": ("calls", "seconds", "usd")})


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
    judges: str = field(metadata={"short": "-j"})
    """The models (provider/model) that rate the answers, separated by commas."""
    tasks: str = ""
    """The runs' tasks that are in files of your own, FILE.py or FILE.py:NAME, separated by commas."""
    people: Path | None = None
    """A JSONL file of people's ratings: {"id": "RUN/QUESTION~REPEAT", "rating": 1}."""
    out: Path | None = field(default=None, metadata={"short": "-o"})
    """The folder for judges.md and the judges' replies; the first folder by default."""
    concurrency: int = field(default=8, metadata={"min": 1, **_FOUND})
    """Answers in work at once."""
    dry_run: bool = field(default=False, metadata=_FOUND)
    """Print the number of answers to rate and stop."""
    model_options: ModelOptions = field(default_factory=ModelOptions)
    """Where and how to reach the models."""


@dataclass(frozen=True, kw_only=True)
class Propose(Reading, Fresh):
    """The options of `questions`."""

    corpus: Path = field(metadata={"short": "-c", "found": is_inside})
    """Documents or an index."""
    out: Path = field(default=Path("questions.jsonl"), metadata={"short": "-o"})
    """The file for the questions, one a line. A file that was edited is never replaced."""
    count: int = field(default=50, metadata={"short": "-n", "min": 1, **_FOUND})
    """How many questions to propose."""
    kinds: str = field(default="two", metadata=_FOUND)
    """How many passages a question needs: one, two or none, separated by commas, which take turns. No passage answers
    those of the kind none, so that the right answer is that the documents do not say."""
    tries: int | None = field(default=None, metadata={"min": 1, **_FILE, **_FOUND})
    """The most pairs of passages to try; ten for each question by default."""
    seed: int = field(default=0, metadata=_FOUND)
    """Draws the pairs of passages."""
    concurrency: int = field(default=4, metadata={"short": "-j", "min": 1, **_FOUND})
    """Pairs in work at once."""
    model: str = field(default=DEFAULT_MODEL, metadata={"found": is_known_model})
    """provider/model; see `reground models`."""
    model_options: ModelOptions = field(default_factory=ModelOptions, metadata=_MODEL)
    """Where and how to reach the model."""
    budget: Budget = field(default_factory=Budget, metadata=_BUDGET)
    """The most that all questions together may cost."""


@dataclass(frozen=True, kw_only=True)
class Trees(Benchmark):
    """The options of a command that collects trees."""

    limit: int = 20
    """The number of questions, drawn by the seed; 0 means all."""
    concurrency: int = 4

    simulations: int = field(default=32, metadata={"min": 1, **_SEARCH})
    """Simulations per tree."""
    in_flight: int = field(default=4, metadata={"min": 1, **_FILE, **_SEARCH})
    """Simulations of one tree that run at once."""
    exploration: float = field(default=2**0.5, metadata={"min": 0, **_FILE, **_SEARCH})
    """The constant c of UCB1: a higher value explores untried moves more."""
    rollout: Literal["answer", "first"] = field(default="answer", metadata={**_FILE, **_SEARCH})
    """How a simulation ends: answer forces the answer at once; first plans on with the first candidate each time."""
