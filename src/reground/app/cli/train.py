"""`reground train`: what its commands share, the export of a trained model, and the reader.

A stage's options are the settings of its trainer (`reground.training.settings`), its folder, and what it reads.
`Command` keeps the settings marked `FILE` off the command line.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import typer

from reground.app.benchmark import Bench
from reground.app.cli.console import consoles, listed, say
from reground.app.cli.flags import Command, ConfigFile, flattened
from reground.app.cli.progress import Progress, Work, opened
from reground.app.cluster import pool
from reground.app.documents import check_searching, corpus_retriever, reranked
from reground.app.options import Benchmark, Data, Documents, Fresh, field_names
from reground.core.concurrency import close, in_daemon
from reground.core.errors import ConfigurationError
from reground.core.evidence import Pages
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.questions import MEASURED, Questions
from reground.evaluation.results import Summary, write_text
from reground.evaluation.runner import EvalSettings, choose, evaluate
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_task, load_training_task
from reground.models import pull
from reground.retrieval.rerank import only
from reground.training import export as exports
from reground.training.oracles import Lessons, demonstrations
from reground.training.report import write_section
from reground.training.rows import Demonstration, read_rows, record_questions, write_demonstrations
from reground.training.settings import FILE, Fitting, ReaderLessons, part_of
from reground.training.sft import fit_named

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])

THREAD = "reground-fit"
"""A process that is interrupted ends without waiting for a thread of this name (`app.cli.main`): a step of a fit is one
library call, and takes seconds. Fits lose nothing by it, because checkpoints and results are put in place whole."""

train_app = typer.Typer(add_completion=False, no_args_is_help=True, help="Train helper models on training splits.")


def stage(app: typer.Typer, *everyday: str, name: str | None = None) -> Callable[[F], F]:
    """Make a command of a function of options. shown: the everyday ones, which --help lists; all by default."""

    def registered(function: F) -> F:
        app.command(name, cls=Command)(flattened(*everyday)(function))
        return function

    return registered


@dataclass(frozen=True, kw_only=True)
class TrainingFolder:
    """The folder that the stages of a training share; each training has its own default."""

    out: Path = field(default=Path("runs/training"), metadata={"short": "-o"})
    """The folder of the training."""
    dry_run: bool = False
    """Print what the stage would do, or cost, and stop."""
    quiet: bool = field(default=False, metadata={"short": "-q"})
    """Show no progress."""

    def progress(self, title: str = "") -> Progress:
        """A line for what the stage does."""
        return Progress(title, visible=not self.quiet)


@dataclass(frozen=True, kw_only=True)
class Base(Fresh):
    """The weights to begin with."""

    base: str = "smollm2"
    """The weights to begin with, as in hf/: a repository, a folder, a GGUF file or alias."""


@dataclass(frozen=True, kw_only=True)
class FitNamed(TrainingFolder, Fitting, Base):
    """A fit to rows, whose result has a name in the folder."""

    name: str = "model"
    """The folder of the result in --out, so that several sizes learn from the same data."""
    keep_epochs: bool = field(default=False, metadata=FILE)
    """Keep the model after each pass over the data too, as NAME-epoch1 and so on."""


FIT = ("base", "name", "epochs", "learning_rate", "lora_rank", "precision", "out", "dry_run", "fresh", "quiet")
"""The everyday options of `FitNamed`."""


async def in_background(work: Callable[[], T]) -> T:
    """Do long blocking work while the event loop goes on. After a cancellation it is left to the end of the process."""
    return await in_daemon(work, name=THREAD)


def settings_of(options: Benchmark, method: str) -> EvalSettings:
    """How a run of a benchmark's options draws its questions and goes through them; failed ones are tried again."""
    values = {name: getattr(options, name) for name in field_names(Questions) if hasattr(options, name)}
    return EvalSettings(method, options.model, **{**values, "limit": options.limit or None, "retry_failed": True})


def opened_bench(options: Any, task: Task, methods: Sequence[str]) -> AbstractAsyncContextManager[Bench]:
    """The model, documents and methods of a stage's options, which are those of a benchmark too."""
    return opened(partial(pool.opened_bench, options, methods, task, options.out), quiet=options.quiet)


async def run_cells(
    options: Any,
    task: Task,
    cells: Mapping[Path, Cell],
    changed: Callable[[Bench, Configured], Configured] = lambda bench, ready: ready,
) -> list[Summary]:
    """Let methods answer the task's questions, each in its run folder. changed: how a method is run instead."""
    summaries = []
    methods = [cell.method for cell in cells.values()]
    base = settings_of(options, methods[0].partition("+")[0])
    runs = len(choose(task, base)) * base.repeats
    async with opened_bench(options, task, methods) as bench:
        with options.progress() as progress:
            progress.plan({out.name: Work(cell, runs) for out, cell in cells.items()})
            for out, cell in cells.items():
                ready = changed(bench, bench.configure(cell, base, options.budget))
                observer = partial(progress.on_run, out.name)
                run = await evaluate(
                    bench.task, ready.method, ready.settings, out, observer=observer, elsewhere=ready.elsewhere
                )
                summaries.append(run.summary)
    return summaries


def fit_rows(options: Any, rows: Sequence[Demonstration], *, out: Path, name: str, base: str, **more: Any) -> Path:
    """Fine-tune a base on rows with progress; the result is OUT/NAME. options: of a stage. more: of `sft.fit_named`."""
    with options.progress(name) as progress:
        work = partial(fit_named, out, name, rows, base, part_of(options, Fitting), **more)
        return asyncio.run(in_background(partial(work, on_step=progress.on_step, on_note=progress.on_note)))


def fit_data(options: FitNamed, data: str, what: str, use: str, *, truncate: bool = True) -> None:
    """Fine-tune on OUT/data/DATA.jsonl; in a dry run say what would be done.

    what: what the rows are called. use: the options that use the result.
    """
    rows = read_rows(options.out / "data" / f"{data}.jsonl", Demonstration)
    if options.dry_run:
        say(f"fit: {len(rows)} {what}, {options.epochs:g} passes over them")
        return
    place = fit_rows(
        options,
        rows,
        out=options.out,
        name=options.name,
        base=options.base,
        fresh=options.fresh,
        keep_epochs=options.keep_epochs,
        truncate=truncate,
    )
    say(f"the result is in {place}: {use.format(place)}")


def examples_of(options: ReaderData, name: str) -> tuple[Task, list[Example]]:
    """A training split and the questions that are drawn of it."""
    share, load = re.search(r":(0?\.\d+)\Z", name), load_training_task if options.questions is None else load_task
    task = load(name[: share.start()] if share else name, options.data)
    examples = choose(task, EvalSettings("", "oracle", limit=options.limit or None, seed=options.seed))
    return task, examples[: math.ceil(float(share[1]) * len(examples))] if share else examples


async def _lessons(options: ReaderData, task: Task, examples: Sequence[Example]) -> Lessons:
    check_searching(options)
    corpus: Path | None = options.corpus or getattr(task, "corpus", None)
    if corpus is None:
        raise ConfigurationError(f"{task.name} has no corpus of its own: give the documents with --corpus")
    with options.progress() as progress:
        on_index, how = progress.on_index, (options.language, options.retrieval)
        pages = await only(await corpus_retriever(corpus, on_index, *how, globs=options.globs), options.where)
    retriever = reranked(pages, options)
    try:
        with options.progress(task.name) as progress:
            on_question = partial(progress.count, total=len(examples), unit="questions")
            return await demonstrations(
                task, examples, retriever, cast("Pages", pages), options, on_question=on_question
            )
    finally:
        await close(retriever)


@dataclass(frozen=True, kw_only=True)
class Export:
    """The options of `train export`."""

    source: str = field(metadata={"argument": True})
    """The model: a folder with an adapter or whole weights, a hub's repository, or a GGUF file."""
    out: Path = field(metadata={"short": "-o"})
    """A folder, or a file whose name ends in .gguf."""
    adapter: bool = False
    """Write the LoRA adapter alone, a small GGUF file for gguf/ with --adapter."""
    like: str | None = None
    """A GGUF file or alias of the same base model, for a GGUF file."""
    precision: Literal["q8_0", "f16"] = "q8_0"
    """The precision of the matrices in a GGUF file."""


@stage(train_app)
def export(options: Export, config: ConfigFile = None) -> None:
    """Write a trained model, its adapter merged in, as a folder of whole weights or as a GGUF file.

    The name of the output decides: a name that ends in .gguf is a file for llama.cpp and gguf/, any other a folder for
    hf/ and other tools. A GGUF file takes its tokenizer and settings from --like, a GGUF file of the same base model.
    With --adapter, only the adapter is written, for gguf/ with --adapter FILE.

    Example:  reground train export runs/rewriter/model --out rewriter.gguf --like smollm2
    """
    source, out, like = options.source, options.out, options.like
    if out.exists():
        raise ConfigurationError(f"{out} exists already: name another --out, or delete it")
    gguf = out.suffix == ".gguf"
    if options.adapter and not gguf:
        raise ConfigurationError("--adapter writes a GGUF file: name an --out that ends in .gguf")
    if gguf and like is None:
        raise ConfigurationError("a GGUF file needs --like: a GGUF file or alias of the same base model")
    with consoles()[1].status("converting the weights"):
        if like is None or not gguf:
            exports.export_folder(source, out)
        elif options.adapter:
            exports.export_adapter(Path(source), out, like=pull.pull(like))
        else:
            exports.export_gguf(source, out, like=pull.pull(like), precision=options.precision)
    say(str(out))


reader_app = typer.Typer(
    no_args_is_help=True,
    help="Teach a small model what the methods ask of it: data, then fit; both in one --out."
    "\n\nExample:  reground train reader fit --tasks hotpotqa_train --rerank links --base qwen2.5-coder-1.5b",
)
train_app.add_typer(reader_app, name="reader")


@dataclass(frozen=True, kw_only=True)
class ReaderData(TrainingFolder, ReaderLessons, Data, Documents):
    """The options of `train reader data`: questions with gold passages, and how an oracle answers them."""

    out: Path = Path("runs/reader")
    tasks: str = "hotpotqa_train"
    """Training splits with gold passages, separated by commas; NAME:0.3 takes three in ten of a split's questions."""
    questions: Path | None = None
    """Your own questions instead, as for eval, with the passages that answer them."""
    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """Documents or an index; each task's own corpus by default."""
    limit: int = field(default=0, metadata={"min": 0})
    """The most questions of each task, drawn by the seed; 0 means all."""


@stage(reader_app)
def data(options: ReaderData, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal reader says to the prompts of the methods on training questions.

    It names what is to be looked up next, quotes the sentences that count, answers, corrects a draft, or says that the
    passages do not hold the answer. No model is needed. The rows are in OUT/data/reader.jsonl.

    Example:  reground train reader data --tasks hotpotqa_train,popqa_train --methods rag,grounded --rerank links
    """
    names = listed(options.tasks) if options.questions is None else [f"{MEASURED}:{options.questions}"]
    sources = [examples_of(options, name) for name in names]
    if options.dry_run:
        for task, examples in sources:
            say(f"would search for {len(examples)} questions of {task.name}")
        return
    rows, lines = list[Demonstration](), list[str]()
    for task, examples in sources:
        lessons = asyncio.run(_lessons(options, task, examples))
        rows += lessons.rows
        lines.append(f"{task.name}: {lessons.describe()}")
        say(lines[-1])
    questions = [example for _, examples in sources for example in examples]
    record_questions(options.out, ",".join(task.name for task, _ in sources), questions)
    write_demonstrations(options.out / "data" / "reader.jsonl", rows)
    head = f"{options.questions or options.tasks}: {options.methods}, --repeats {options.repeats} --seed {options.seed}"
    write_section(options.out, "data", "\n".join([head, "", *(f"- {line}" for line in lines)]))


@dataclass(frozen=True, kw_only=True)
class ReaderFit(ReaderData, FitNamed):
    """The options of `train reader fit`."""

    learning_rate: float = 2e-4
    max_length: int = 2048
    lora_rank: int = 16
    like: str | None = None
    """A GGUF file or alias of the same base: the adapter is also written for gguf/, as OUT/NAME.gguf."""


@stage(reader_app, "tasks", "questions", "corpus", "methods", "limit", "rerank", "like", *FIT)
def fit(options: ReaderFit, config: ConfigFile = None) -> None:
    """Fine-tune a model on the demonstrations, on the replies only. Where there are none yet, `data` makes them first.

    The result, OUT/NAME, is used as --model hf/OUT/NAME; with --like also as --model gguf/LIKE --adapter OUT/NAME.gguf.
    Its README.md says what it was made of. The same command resumes an interrupted fit.

    Example:  reground train reader fit --base qwen2.5-coder-1.5b --like qwen2.5-coder-1.5b --out runs/reader
    """
    place, rows = options.out / options.name, options.out / "data" / "reader.jsonl"
    like = None if options.like is None else pull.pull(options.like)  # before hours of fitting
    if not rows.exists():
        data(options)
    if rows.exists():
        fit_data(options, "reader", "demonstrations", "--model hf/{}", truncate=False)  # passages stand first
    if options.dry_run:
        return
    how = ", ".join(f"{name} {value}" for name, value in asdict(part_of(options, Fitting)).items())
    write_section(options.out, "fit", f"Base: {options.base}. Its licence and that of the data hold. Settings: {how}.")
    write_text(place / "README.md", (options.out / "report.md").read_text("utf-8").replace("](fit/", "](../fit/"))
    if like is not None:
        exports.export_adapter(place, place.with_suffix(".gguf"), like=like)
        say(f"for llama.cpp: --model gguf/{options.like} --adapter {place.with_suffix('.gguf')}")
