"""`reground train retriever`: fine-tune the embedder of dense and hybrid search."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_retriever import RetrieverData, RetrieverEval, RetrieverFit, RetrieverRank

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.evidence import Pages, Retriever
    from reground.retrieval.rerank.links import Weights
    from reground.training.measured import Measured
    from reground.training.retriever.data import Mined, Question
    from reground.training.retriever.folder import Source, TrainingFolder

CLOZES = 2000

retriever_app = typer.Typer(
    no_args_is_help=True,
    help="Train search on your documents or a benchmark: data, then fit (the embedder of dense and hybrid search), "
    "rank (the weights of --rerank links) or both, then eval; all in one --out."
    "\n\nExample:  reground train retriever data --corpus docs/ --out runs/docs",
)


@retriever_app.command()
@flattened
def data(order: RetrieverData, voice: Quiet, config: ConfigFile = None) -> None:
    """Write rows to train on: a question, a passage that answers it, and passages that BM25 mistakes for it.

    Tasks must be training splits. With documents alone, their sentences stand in for questions.

    Example:  reground train retriever data --tasks hotpotqa_train,popqa_train --out runs/retriever
    """
    from reground.training.report import write_section
    from reground.training.retriever.folder import Config, TrainingFolder

    console, err = common.consoles()
    sources = _sources(order)
    if order.dry_run:
        for source in sources:
            common.say(console, f"would search {source.corpus} for the questions of {source.name}")
        return
    questions: dict[str, Sequence[Question]] = {}
    mined: dict[str, Mined] = {}
    for source in sources:
        questions[source.name], mined[source.name] = asyncio.run(_mined(order, source, err, quiet=voice.quiet))
        common.say(console, f"{source.name}: {_counted(mined[source.name])}")
    settings = {field.name: getattr(order, field.name) for field in _fields_of_mining()}
    folder = TrainingFolder(order.out)
    folder.write_data(Config(sources=tuple(sources), mining=settings), questions, mined)
    told = [f"- {name}: {_counted(each)}" for name, each in mined.items()]
    write_section(order.out, "data", "\n".join(told))
    common.say(console, f"rows in {folder.rows}")


def _counted(mined: Mined) -> str:
    left_out = [f"{number} {why}" for why, number in sorted(mined.left_out.items()) if number]
    return f"{len(mined.rows)} rows to train on, {len(mined.held_out)} held out" + (
        f"; left out: {', '.join(left_out)}" if left_out else ""
    )


def _fields_of_mining() -> tuple[dataclasses.Field[Any], ...]:
    from reground.training.retriever.settings import Mining

    return dataclasses.fields(Mining)


def _sources(order: RetrieverData) -> list[Source]:
    """Where questions come from. Raises ConfigurationError for a task that measures or has no corpus."""
    from reground.app.corpora import is_index
    from reground.app.evaluating import corpus_of
    from reground.core.errors import ConfigurationError
    from reground.core.places import expanded
    from reground.evaluation.tasks import load_training_task
    from reground.training.retriever.folder import Source

    names = common.listed(order.tasks)
    if order.corpus is not None and is_index(order.corpus):
        raise ConfigurationError(f"{order.corpus} is an index: give the documents that it was made of")
    if names and order.questions is not None:
        raise ConfigurationError("give tasks or a file of questions, not both")
    if not names:
        if order.corpus is None:
            raise ConfigurationError("nothing to train on: give --tasks, or --corpus with your documents")
        name = str(order.questions) if order.questions is not None else "sentences"
        return [Source(name=name, corpus=expanded(order.corpus).resolve(), language=order.language)]
    corpora = {name: corpus_of(load_training_task(name, order.data), order.corpus) for name in names}
    return [
        Source(name=name, corpus=expanded(path).resolve(), language=order.language) for name, path in corpora.items()
    ]


async def _mined(
    order: RetrieverData, source: Source, err: Console, *, quiet: bool
) -> tuple[Sequence[Question], Mined]:
    from reground.app.corpora import default_settings
    from reground.training.retriever.data import Pieces, mine
    from reground.training.retriever.questions import clozes, documents_of, own_questions, questions_of

    retriever = await _opened(source, {"kind": "bm25"}, err, quiet=quiet)
    cut = default_settings()
    pieces, given = Pieces(size=cut.chunk_tokens, overlap=cut.overlap), {}
    if order.tasks:
        from reground.evaluation.tasks import load_training_task

        questions = questions_of(load_training_task(source.name, order.data))
    elif order.questions is not None:
        questions = await own_questions(order.questions, retriever)
    else:
        made = clozes(documents_of(source.corpus), pieces, count=order.limit or CLOZES, seed=order.seed)
        questions, given = [cloze.question for cloze in made], {cloze.question.id: cloze.passage for cloze in made}
    questions = [each.model_copy(update={"task": source.name}) for each in questions[: order.limit or None]]
    with _bar(err, f"searching {source.name}", len(questions), quiet=quiet) as tick:
        return questions, await mine(questions, retriever, pieces, order, given=given, on_question=tick)


@retriever_app.command()
@flattened
def fit(order: RetrieverFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune an embedder on the rows. The same command resumes an interrupted fit.

    The result is a folder of sentence-transformers: reground index DOCS --kind hybrid --embedder st/OUT/retriever. The
    base and the result are measured on held-out rows; with --fresh and other settings, report.md compares all tries.

    Example:  reground train retriever fit --out runs/retriever --epochs 1
    """
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.fitting import begin
    from reground.training.report import write_section
    from reground.training.retriever.fit import fit_retriever
    from reground.training.retriever.folder import TrainingFolder
    from reground.training.retriever.report import tries_table, validation_line

    console, err = common.consoles()
    folder = TrainingFolder(order.out)
    rows = folder.training_rows()
    if order.dry_run:
        common.say(console, _cost(order, rows))
        return
    settings = {field.name: getattr(order, field.name) for field in _fields_of_fitting()}
    begin(folder.checkpoints, {**settings, "data": folder.fingerprint()}, fresh=order.fresh)
    if folder.is_fitted():
        common.say(console, f"{folder.result} is fitted already; --fresh fits it again")
        return
    held_out = folder.held_out_rows()

    def on_validate() -> None:
        if held_out and not voice.quiet:
            common.say(err, "ranking passages of held-out questions")

    with FitProgress(err, "fitting the embedder", shown=not voice.quiet) as progress:
        before, after = fit_retriever(
            rows,
            order,
            folder.checkpoints,
            folder.result,
            held_out=held_out,
            on_step=progress.on_step,
            on_validate=on_validate,
        )
    folder.close_fit()
    if before is not None and after is not None:
        tries = folder.keep_try({**settings, "data": folder.fingerprint()}, before, after)
        write_section(order.out, "fit", tries_table(tries))
        common.say(console, validation_line(before, after))
    common.say(
        console, f"the embedder is in {folder.result}: reground index DOCS --kind hybrid --embedder st/{folder.result}"
    )


def _fields_of_fitting() -> list[dataclasses.Field[Any]]:
    from reground.training.retriever.settings import RetrieverFitting

    return [field for field in dataclasses.fields(RetrieverFitting) if field.name != "threads"]


def _cost(order: RetrieverFit, rows: Sequence[Any]) -> str:
    from reground.retrieval.chunking import count_tokens
    from reground.training.retriever.fit import measured_cost

    sample = rows[:: max(1, len(rows) // 200)]
    texts = [text for row in sample for text in (row.anchor, row.positive, *row.negatives[: order.hard])]
    tokens = sum(min(order.max_length, count_tokens(text)) for text in texts) / len(sample)
    steps = -(-len(rows) // order.batch // order.accumulate) * order.epochs
    seconds, memory = measured_cost(rows, order)
    return (
        f"{len(rows)} rows, {steps:.0f} steps of {order.batch * order.accumulate} rows, "
        f"about {common.human_tokens(int(tokens * len(rows) * order.epochs))} tokens, {common.human_time(seconds)}, "
        f"{memory / 1e6:.0f} MB for weights and optimizer"
    )


@retriever_app.command()
@flattened
def rank(order: RetrieverRank, voice: Quiet, config: ConfigFile = None) -> None:
    """Fit the four weights of --rerank links to your questions, in seconds and without a model.

    Example:  reground train retriever rank --out runs/retriever
    """
    from reground.evaluation.results import write_text
    from reground.retrieval.rerank.links import WeightsFile
    from reground.training.report import write_section
    from reground.training.retriever.folder import TrainingFolder

    console, err = common.consoles()
    folder = TrainingFolder(order.out)
    asked = [(source, folder.questions(source, held_out=False)) for source in folder.config().sources]
    if order.dry_run:
        common.say(console, f"would fit four weights to {sum(len(each) for _, each in asked)} questions")
        return
    weights, fitted = asyncio.run(_weighed(asked, order, err, quiet=voice.quiet))
    write_text(folder.links, WeightsFile(weights=weights, questions=fitted).model_dump_json(indent=2) + "\n")
    said = ", ".join(f"{name} {value:.2f}" for name, value in weights)
    write_section(order.out, "rank", f"Weights of links, fitted to {fitted} questions: {said}.")
    common.say(console, f"{said}, fitted to {fitted} questions; use them with --rerank links:{order.out}")


async def _weighed(
    asked: Sequence[tuple[Source, list[Question]]], order: RetrieverRank, err: Console, *, quiet: bool
) -> tuple[Weights, int]:
    from reground.retrieval.rerank.links import Linked, Weights
    from reground.training.retriever.rank import candidate_lists, fit_weights

    lists = []
    for source, questions in asked:
        search = Linked(await _opened(source, {"kind": "bm25"}, err, quiet=quiet), Weights(), depth=order.rerank_depth)
        with _bar(err, f"searching {source.name}", len(questions), quiet=quiet) as tick:
            lists += await candidate_lists(questions, search, tick)
    return fit_weights(lists), len(lists)


@retriever_app.command(name="eval")
@flattened
def evaluate(order: RetrieverEval, voice: Quiet, config: ConfigFile = None) -> None:
    """Measure what is found of the gold passages: by BM25, with links, by the base and the trained embedder.

    Before a fit, BM25 and links alone are measured.

    Example:  reground train retriever eval --out runs/retriever --task hotpotqa --limit 300
    """
    from reground.evaluation.results import write_text
    from reground.training.report import write_section
    from reground.training.retriever.evaluate import record, table
    from reground.training.retriever.folder import TrainingFolder

    console, err = common.consoles()
    folder = TrainingFolder(order.out)
    said = _measured_before(order)
    for source, questions in _measuring(order, folder):
        if order.dry_run:
            common.say(console, f"would search {source.corpus} for {len(questions)} questions of {source.name}")
            continue
        systems = asyncio.run(_systems(folder, source, questions, err, quiet=voice.quiet))
        told = f"{source.name}, {len(questions)} questions:\n\n{table(systems)}"
        said[source.name] = {"questions": len(questions), "systems": record(systems), "table": told}
        common.say(console, told)
    if order.dry_run:
        return
    write_text(order.out / "eval.json", json.dumps(said, indent=2, ensure_ascii=False) + "\n")
    write_section(order.out, "eval", "\n".join(each["table"] for each in said.values()))


def _measured_before(order: RetrieverEval) -> dict[str, Any]:
    """What eval.json holds of other tasks."""
    try:
        found = json.loads((order.out / "eval.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: each for name, each in found.items() if isinstance(each, dict) and "table" in each}


def _measuring(order: RetrieverEval, folder: TrainingFolder) -> list[tuple[Source, list[Question]]]:
    """The questions of the task, or those held out of each source."""
    from reground.core.errors import ConfigurationError, DataError
    from reground.training.retriever.folder import Source
    from reground.training.retriever.questions import questions_of

    if order.task is not None:
        from reground.evaluation.tasks import load_task

        task = load_task(order.task, order.data)
        corpus = getattr(task, "corpus", None)
        if corpus is None:
            raise ConfigurationError(f"{order.task} has no corpus, so there are no gold passages to find")
        questions = [question for question in questions_of(task) if question.gold]
        if not questions:
            raise DataError(f"no question of {order.task} has gold passages")
        return [(Source(name=order.task, corpus=corpus), _drawn(questions, order))]
    found = [(source, folder.questions(source, held_out=True)) for source in folder.config().sources]
    return [(source, _drawn(own, order)) for source, own in found if own]


def _drawn(questions: list[Question], order: RetrieverEval) -> list[Question]:
    random.Random(order.seed).shuffle(questions)
    return questions[: order.limit or None]


async def _systems(
    folder: TrainingFolder, source: Source, questions: Sequence[Question], err: Console, *, quiet: bool
) -> list[Measured]:
    """BM25, BM25 reranked by links, and each embedder alone and fused with BM25."""
    from reground.retrieval.rerank import rerank
    from reground.training.retriever.evaluate import fused, measured
    from reground.training.retriever.evaluate import rank as ranked

    async def searched(name: str, search: Retriever) -> dict[str, Sequence[str]]:
        with _bar(err, name, len(questions), quiet=quiet) as tick:
            return await ranked(questions, search, tick)

    bm25 = await _opened(source, {"kind": "bm25"}, err, quiet=quiet)
    links = f"links:{folder.path}" if folder.links.is_file() else "links"
    words = await searched("BM25", bm25)
    systems = [measured("BM25", questions, words)]
    systems.append(measured("BM25 > links", questions, await searched("links", rerank(bm25, links))))
    for name, embedder in _embedders(folder).items():
        dense = await _opened(source, {"kind": "dense", "embedder": f"st/{embedder}"}, err, quiet=quiet)
        vectors = await searched(name, dense)
        systems.append(measured(name, questions, vectors))
        systems.append(measured(f"BM25 + {name}", questions, fused(words, vectors)))
    return systems


def _embedders(folder: TrainingFolder) -> dict[str, str]:
    """The base and the trained embedder; none before a fit."""
    from reground.training.retriever.fit import base_folder

    settings = folder.checkpoints / "settings.json"
    if not folder.result.is_dir() or not settings.is_file():
        return {}
    base = str(json.loads(settings.read_text(encoding="utf-8"))["base"])
    return {"base": base_folder(base), "trained": str(folder.result.resolve())}


async def _opened(source: Source, kind: dict[str, Any], err: Console, *, quiet: bool) -> Pages:
    """The source's index in the cache, brought up to date with progress."""
    from reground.app.cli.progress import AskProgress
    from reground.app.corpora import corpus_retriever, default_settings

    settings = dataclasses.replace(default_settings(), **kind)
    with AskProgress(err, shown=not quiet) as progress:
        found = await corpus_retriever(source.corpus, progress.on_index, settings, language=source.language)
    return cast("Pages", found)


@contextmanager
def _bar(err: Console, what: str, total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar on standard error; the function that is given moves it on by one."""
    from rich.progress import Progress

    with Progress(console=err, transient=True, disable=quiet or not err.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.add_typer(retriever_app, name="retriever")
