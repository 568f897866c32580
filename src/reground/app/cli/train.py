"""`reground train`: what its commands share, the export of a trained model, and the reader.

A stage's options are the settings of its trainer (`reground.training.settings`), its folder, and what it reads.
`Command` keeps the settings marked `FILE` off the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import typer

from reground.app.benchmark import Bench, corpus_of, open_bench
from reground.app.cli.console import consoles, listed, note, say
from reground.app.cli.flags import Command, ConfigFile, flattened
from reground.app.cli.progress import Progress, Work, opened
from reground.app.cluster.pool import opened_pool, placed
from reground.app.documents import check_reranker, close, corpus_retriever, reranked
from reground.app.options import Benchmark, Data, Documents, Fresh
from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError
from reground.core.evidence import Pages
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.results import Summary
from reground.evaluation.runner import EvalSettings, choose, evaluate
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_training_task
from reground.models import pull
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


def stage(app: typer.Typer, *shown: str, name: str | None = None) -> Callable[[F], F]:
    """Make a command of a function of options. shown: the everyday ones, which --help lists; all by default."""

    def registered(function: F) -> F:
        app.command(name, cls=Command)(flattened(*shown)(function))
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
        return Progress(title, shown=not self.quiet)


@dataclass(frozen=True, kw_only=True)
class TrainingSplits(Data, Documents):
    """The questions with gold passages that an oracle answers."""

    tasks: str = "hotpotqa_train"
    """Training splits with gold passages, separated by commas."""
    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """Documents or an index; each task's own corpus by default."""
    limit: int = field(default=0, metadata={"min": 0})
    """The most questions of each task, drawn by the seed; 0 means all."""


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
    return EvalSettings(
        method,
        options.model,
        limit=options.limit or None,
        seed=options.seed,
        concurrency=options.concurrency,
        repeats=getattr(options, "repeats", 1),
        retry_failed=True,
    )


@asynccontextmanager
async def opened_bench(
    options: Any, task: Task, methods: Sequence[str]
) -> AsyncIterator[tuple[Bench, Callable[..., Configured]]]:
    """The model, documents and methods of a benchmark's options; and what configures a cell, here or at workers.

    options: those of a stage and of a benchmark.
    """
    async with AsyncExitStack() as stack:
        context = partial(open_bench, options, methods, task, options.out)
        bench = await stack.enter_async_context(opened(context, quiet=options.quiet))
        pool = await stack.enter_async_context(opened_pool(options, methods, note))

        def configured(cell: Cell, base: EvalSettings, searching: Any = None) -> Any:
            ready = bench.configure(cell, base, options.budget)
            return placed(ready, pool, options.task, cell, searching)

        yield bench, configured


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
    async with opened_bench(options, task, methods) as (bench, configured):
        with options.progress() as progress:
            progress.plan({out.name: Work(cell, runs) for out, cell in cells.items()})
            for out, cell in cells.items():
                ready = changed(bench, configured(cell, base))
                observer = partial(progress.on_run, out.name)
                done = await evaluate(
                    bench.task, ready.method, ready.settings, out, observer=observer, elsewhere=ready.elsewhere
                )
                summaries.append(done.summary)
    return summaries


def fit_rows(options: Any, rows: Sequence[Demonstration], *, out: Path, name: str, base: str, **more: Any) -> Path:
    """Fine-tune a base on rows with progress; the result is OUT/NAME. options: of a stage. more: of `sft.fit_named`."""
    with options.progress(name) as progress:
        work = partial(fit_named, out, name, rows, base, part_of(options, Fitting), **more)
        return asyncio.run(in_background(partial(work, on_step=progress.on_step, on_note=progress.on_note)))


def fit_data(options: FitNamed, data: str, what: str, use: str, *, cut: bool = True) -> None:
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
        cut=cut,
    )
    say(f"the result is in {place}: {use.format(place)}")


def demonstrate(options: Any, *, method: str, name: str, questions: str) -> None:
    """Write what an oracle says to OUT/data/NAME.jsonl; in a dry run say what would be asked.

    options: a folder, training splits, and the settings of a reader's or the agent's oracle. method: draws the
    questions. questions: the file in OUT with their ids.
    """
    drawing = EvalSettings(method, "oracle", limit=options.limit or None, seed=options.seed)
    tasks = [load_training_task(each, options.data) for each in listed(options.tasks)]
    drawn = [(task, choose(task, drawing)) for task in tasks]
    if options.dry_run:
        for task, examples in drawn:
            say(f"would search for {len(examples)} questions of {task.name}")
        return
    rows: list[Demonstration] = []
    lines = []
    for task, examples in drawn:
        lessons = asyncio.run(_lessons(options, task, examples))
        rows += lessons.rows
        lines.append(f"{task.name}: {lessons.describe()}")
        say(lines[-1])
    asked = [example for _, examples in drawn for example in examples]
    record_questions(options.out, ",".join(task.name for task in tasks), asked, file=questions)
    write_demonstrations(options.out / "data" / f"{name}.jsonl", rows)
    write_section(options.out, "data", "\n".join(f"- {line}" for line in lines))


async def _lessons(options: Any, task: Task, examples: Sequence[Example]) -> Lessons:
    check_reranker(options)
    with options.progress() as progress:
        corpus = corpus_of(task, options.corpus)
        pages = await corpus_retriever(corpus, progress.on_index, options.language, options.retrieval)
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
    help="Train a small model to read for grounded+reader: data, then fit; both in one --out."
    "\n\nExample:  reground train reader data --tasks hotpotqa_train,popqa_train --rerank links --out runs/reader",
)
train_app.add_typer(reader_app, name="reader")


@dataclass(frozen=True, kw_only=True)
class ReaderData(TrainingFolder, ReaderLessons, TrainingSplits):
    """The options of `train reader data`."""

    out: Path = Path("runs/reader")


@stage(reader_app)
def data(options: ReaderData, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal reader says to the prompts of grounded+reader on training questions.

    It quotes the supporting sentences and gives the gold answer, names the gold pages that it has not read, or says
    that the passages do not hold the answer. No model is needed. The rows are in OUT/data/reader.jsonl.

    Example:  reground train reader data --tasks hotpotqa_train,popqa_train --rerank links --out runs/reader
    """
    demonstrate(options, method="grounded+reader", name="reader", questions="questions.json")


@dataclass(frozen=True, kw_only=True)
class ReaderFit(FitNamed):
    """The options of `train reader fit`."""

    out: Path = Path("runs/reader")
    learning_rate: float = 2e-4
    max_length: int = 1536
    lora_rank: int = 16


@stage(reader_app, *FIT)
def fit(options: ReaderFit, config: ConfigFile = None) -> None:
    """Fine-tune a model on the demonstrations, on the replies only.

    The result, OUT/NAME, is used as --method grounded+reader --model hf/OUT/NAME. The same command resumes an
    interrupted fit.

    Example:  reground train reader fit --base smollm2 --out runs/reader
    """
    fit_data(options, "reader", "demonstrations", "--method grounded+reader --model hf/{}")
