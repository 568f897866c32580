"""`reground train rewriter`: a query rewriter learns by warm-up and reinforcement learning."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import typer

from reground.app.benchmark import Bench, corpus_of, settings_by_method
from reground.app.catalogue import build_method
from reground.app.cli.config import ConfigFile
from reground.app.cli.console import consoles, end_if_failed, human_time, listed, note, say
from reground.app.cli.eval import slug
from reground.app.cli.flags import Command, everyday, flattened
from reground.app.cli.progress import Progress, opened_model
from reground.app.cli.train import (
    Base,
    TrainingFolder,
    fit_rows,
    in_background,
    opened_bench,
    run_cells,
    settings_of,
)
from reground.app.documents import Source, check_reranker, open_source
from reground.app.options import Benchmark, Cluster, Quiet
from reground.app.runs import resolved
from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.results import write_text
from reground.evaluation.runner import EvalSettings, choose
from reground.evaluation.runner import Progress as RunProgress
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_task, load_training_task
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.models.options import ModelOptions
from reground.training.fitting import require_training
from reground.training.report import write_report, write_section
from reground.training.rewriter.evaluate import (
    FOUND,
    PROMPTED,
    QUESTION,
    Rewriter,
    measurable,
    measure_rewriter,
    record,
    rewritings_table,
    tables,
)
from reground.training.rewriter.reward import (
    NO_READER,
    PipelineReward,
    metrics_of,
    retriever_only,
    reward_weights,
    teaches,
    without_reader,
)
from reground.training.rewriter.warmup import Divided, divided, learnt, warmup_rows
from reground.training.rows import write_demonstrations
from reground.training.settings import FILE, Fitting, Optimising, WarmUp, part_of

METHOD = "rewrite_retrieve_read"
REWRITTEN, PLAIN = "rewritten", "plain"
rewriter_app = typer.Typer(
    no_args_is_help=True,
    help="Train a query rewriter: collect rewritings of a prompted model, warmup on those that led to the answer, ppo "
    "on the reward of the whole pipeline, eval; all in one --out."
    "\n\nExample:  reground train rewriter collect --task hotpotqa_train --limit 400 --out runs/rewriter",
)


@dataclass(frozen=True, kw_only=True)
class RewriterFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/rewriter")


@dataclass(frozen=True, kw_only=True)
class Searching(RewriterFolder, Benchmark):
    """What is searched with the queries."""

    passages: int = field(default=3, metadata={"min": 1})
    """Passages of all queries together that are read."""


@dataclass(frozen=True, kw_only=True)
class RewriterCollect(Searching, Cluster):
    """The options of `train rewriter collect`."""

    limit: int = 400
    """The number of questions, drawn by the seed; 0 means all."""

    passages_only: bool = False
    """Do not answer the questions: the passages alone show whether a rewriting was good (--proof passages)."""


@dataclass(frozen=True, kw_only=True)
class RewriterWarmup(RewriterFolder, WarmUp, Fitting, Base):
    """The options of `train rewriter warmup`."""

    epochs: float = 3.0
    max_length: int = 512

    def __post_init__(self) -> None:
        WarmUp.__post_init__(self)
        Fitting.__post_init__(self)


@dataclass(frozen=True, kw_only=True)
class RewriterPpo(Optimising, Searching, Base):
    """The options of `train rewriter ppo`."""

    limit: int = 0
    """The number of questions to learn from, drawn by the seed; 0 means all."""

    base: str = ""
    """The weights to begin with, as in hf/; those of the warm-up by default."""

    validation: int = field(default=64, metadata={"min": 1})
    """The number of training questions that are set aside to choose the best weights by."""

    reward: str = "retrieval"
    """What a rewriting earns: retrieval (hit and reciprocal rank, without a reader), paper (exact match, F1 and hit of
    the whole pipeline), or metrics with weights, such as hit=1,gold recall=0.5."""

    control: Literal["rloo", "grpo"] | None = field(default=None, metadata=FILE)
    """Train by TRL's RLOO or GRPO instead, on as many replies and the same reward; the result is OUT/rloo or
    OUT/grpo."""

    threads: int | None = field(default=None, metadata=FILE)
    """Processor threads; those of the model, --threads, by default."""

    seed: int = 0
    """Draws the questions and the samples."""


@dataclass(frozen=True, kw_only=True)
class RewriterEval(Searching):
    """The options of `train rewriter eval`."""

    limit: int = 0
    """The number of questions, drawn by the seed; 0 means all."""

    models: str | None = None
    """Models to measure, separated by commas: folders or anything that hf/ takes; the training's own by default."""

    prompted: bool = False
    """Measure --model as a prompted rewriter too."""

    answered: int = field(default=0, metadata={"min": 0})
    """The number of questions, the first ones, that --model also answers with what each rewriter finds."""


@rewriter_app.command(cls=Command)
@everyday("task", "corpus", "model", "limit", "passages_only", "settings", "out", "dry_run", "quiet")
@flattened
def collect(order: RewriterCollect, voice: Quiet, config: ConfigFile = None) -> None:
    """Have a prompted model rewrite training questions, and see which rewritings lead to the answer.

    A second run takes each question itself as the query. Both are ordinary runs, in OUT/rewritten and OUT/plain. The
    same command resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train rewriter collect --task hotpotqa_train --limit 400 --model openai/my-model
    """
    task = load_training_task(order.task, order.data)
    if order.passages_only and order.ray is not None:
        raise ConfigurationError("--passages-only asks one short call a question, here: leave out --ray")
    if order.dry_run:
        total = len(choose(task, settings_of(order, METHOD)))
        say(f"collect: {total} questions, at most {(1 if order.passages_only else 3) * total} calls")
        return

    def changed(bench: Bench, ready: Configured) -> Configured:
        if not order.passages_only:
            return ready
        method = replace(cast("RewriteRetrieveRead", ready.method), rewriter=bench.model, rewriter_style="prompted")
        settings = {**ready.settings.method_settings, "reader": "none"}
        return replace(
            ready, method=without_reader(method), settings=replace(ready.settings, method_settings=settings)
        )  # fmt: skip

    own = replace(order, settings={"total": order.passages, **order.settings})
    cells = {
        order.out / REWRITTEN: Cell(method=METHOD, tokens=None),
        order.out / PLAIN: Cell(method=f"{METHOD}+retrieve", tokens=None),
    }
    summaries = asyncio.run(run_cells(own, task, cells, changed, quiet=voice.quiet))
    say(f"rewritings in {order.out / REWRITTEN}: reground train rewriter warmup --out {order.out}")
    end_if_failed(sum(summary.failed for summary in summaries))


@rewriter_app.command(cls=Command)
@everyday("base", "proof", "epochs", "learning_rate", "lora_rank", "precision", "out", "dry_run", "fresh", "quiet")
@flattened
def warmup(order: RewriterWarmup, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the rewritings that led to the answer, and on questions that need none.

    The result, OUT/warmup, is used with --rewriter hf/OUT/warmup. The same command resumes an interrupted fit.

    Example:  reground train rewriter warmup --base smollm2 --proof passages
    """
    require_training()
    kept = warmup_rows(order.out / REWRITTEN, order.out / PLAIN, order)
    say(kept.describe())
    if order.dry_run:
        return
    write_demonstrations(order.out / "data" / "warmup.jsonl", kept.rows)
    write_section(order.out, "warmup", kept.describe())
    place = fit_rows(
        order, kept.rows, out=order.out, name="warmup", base=order.base, quiet=voice.quiet, fresh=order.fresh
    )  # fmt: skip
    say(f"the warmed-up rewriter is in {place}: --rewriter hf/{place}")


@rewriter_app.command(cls=Command)
@everyday(
    "task",
    "corpus",
    "base",
    "reward",
    "iterations",
    "episodes",
    "learning_rate",
    "lora_rank",
    "limit",
    "out",
    "dry_run",
    "fresh",
    "quiet",
)
@flattened
def ppo(order: RewriterPpo, voice: Quiet, config: ConfigFile = None) -> None:
    """Improve the rewriter by proximal policy optimisation on what its queries bring.

    It begins with OUT/warmup, or with --base. The result, OUT/model, is used with --rewriter hf/OUT/model. The same
    command resumes an interrupted training. With the key control the same budget goes to TRL's RLOO or GRPO.

    Example:  reground train rewriter ppo --task hotpotqa_train --iterations 30 --episodes 256
    """
    require_training()
    task = load_training_task(order.task, order.data)
    weights = reward_weights(order.reward, task)
    parts = _divided(order, task, weights)
    if parts.known and order.control is None:
        note(str(parts))
    if order.dry_run:
        replies, questions = order.iterations * order.episodes, len(parts.learning)
        say(f"ppo: {replies} replies to {questions} questions, {len(parts.validation)} for validation")
        return
    place = asyncio.run(_optimised(order, task, weights, parts, quiet=voice.quiet))
    say(f"the rewriter is in {place}: --rewriter hf/{place}")


def _divided(order: RewriterPpo, task: Task, weights: dict[str, float]) -> Divided:
    """The questions to learn from, and those for validation, without those that the reward learns nothing from."""
    drawn = choose(task, EvalSettings(METHOD, "", limit=None, seed=order.seed))
    useful = [each for each in drawn if teaches(each, weights)]
    if len(useful) <= order.validation:
        raise DataError(
            f"{task.name} has {len(useful)} questions whose answers {order.reward} can reward, "
            f"too few for --validation {order.validation}"
        )
    known = learnt(order.out / "data" / "warmup.jsonl")
    return divided(useful, validation=order.validation, limit=order.limit or None, known=known)


async def _optimised(order: RewriterPpo, task: Task, weights: dict[str, float], parts: Divided, *, quiet: bool) -> Path:
    from reground.training.rewriter.train import fit_control, optimise_rewriter  # torch

    settings = part_of(order, Optimising)
    async with AsyncExitStack() as stack:
        method = await _pipeline(order, task, stack, reader=not retriever_only(weights), quiet=quiet)
        reward = PipelineReward(method, task, weights)
        loop = asyncio.get_running_loop()

        async def judge(example: Example, text: str) -> dict[str, float]:
            """The reward, computed in this event loop, where models and documents were opened."""
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reward(example, text), loop))

        recorded = {
            "reward": weights,
            "task": task.name,
            "retriever": getattr(method.retriever, "name", None),
            "reader": method.model.name,
            **{f"method.{name}": value for name, value in resolved(method).items()},
        }
        begin = order.base or str(order.out / "warmup")
        same: dict[str, Any] = {"questions": parts.learning, "reward": recorded, "fresh": order.fresh}
        with Progress(order.control or "ppo", shown=not quiet) as progress:
            if order.control is not None:
                fit = partial(fit_control, order.out, begin, order.control, settings, judge, **same)
                place = await in_background(partial(fit, on_step=progress.on_step))
            else:

                def told(number: int, metrics: dict[str, float]) -> None:
                    progress.show(_line(number, order.iterations, metrics, weights), now=True)

                fit = partial(optimise_rewriter, order.out, begin, settings, judge, **same)
                place = await in_background(partial(fit, validation=parts.validation, on_iteration=told))
                write_section(order.out, "ppo", f"{parts}.")
    write_report(order.out)
    return place


async def _pipeline(
    order: Searching, task: Task, stack: AsyncExitStack, *, reader: bool, quiet: bool
) -> RewriteRetrieveRead:
    """The method whose queries are rewarded and measured. reader: whether the model reads, or nobody.

    Raises ConfigurationError for a setting that it does not have.
    """
    chosen = {"total": order.passages, **order.settings}
    if reader:
        order = replace(order, settings=chosen)
        _, configured = await stack.enter_async_context(opened_bench(order, task, [METHOD], order.out, quiet=quiet))
        ready = configured(Cell(method=METHOD, tokens=None), EvalSettings(METHOD, order.model))
        return cast("RewriteRetrieveRead", ready.method)
    check_reranker(order)
    settings = settings_by_method(chosen, [METHOD])[METHOD]
    with Progress(shown=not quiet) as progress:
        source = Source(corpus_of(task, order.corpus), usual=None)
        retriever = await open_source(
            source, order, stack, on_index=progress.on_index, on_report=progress.on_report
        )  # fmt: skip
    method = build_method(METHOD, model=NO_READER, retriever=retriever, form=task.form, settings=settings)
    return cast("RewriteRetrieveRead", method)


def _line(number: int, total: int, metrics: dict[str, float], rewarded: dict[str, float]) -> str:
    """An iteration in one line: the reward with its parts, and what tells of a policy that goes astray."""
    parts = ", ".join(f"{name} {metrics[name]:.3f}" for name in (*rewarded, "gain", "failed") if name in metrics)
    checked = f", validation {metrics['validation']:.3f}" if "validation" in metrics else ""
    explained = f" explaining {metrics['explained_variance']:.0%}" if "explained_variance" in metrics else ""
    used = f", {metrics['used']:.0%} learnt from" if metrics["used"] < 1 else ""
    back = ", collapsed: back to the best weights" if metrics.get("collapsed") else ""
    return (
        f"iteration {number} of {total}: reward {metrics['reward']:.3f} ({parts}){checked}, divergence "
        f"{metrics['kl']:.2f}, entropy {metrics['entropy']:.2f}, {metrics['length']:.0f} tokens, "
        f"{metrics['ended']:.0%} ended, {metrics['empty']:.0%} empty, {metrics['invalid']:.0%} unusable{used}, "
        f"value loss {metrics['value_loss']:.3f}{explained}, {metrics['clipped']:.0%} clipped, "
        f"{metrics['seconds']:.0f} s, {human_time((total - number) * metrics['seconds'])} left{back}"
    )


@rewriter_app.command(name="eval", cls=Command)
@everyday("task", "corpus", "models", "model", "prompted", "answered", "limit", "out", "dry_run", "quiet")
@flattened
def evaluate(order: RewriterEval, voice: Quiet, config: ConfigFile = None) -> None:
    """Measure what rewriters find, against the question itself as the query; no reader is needed for that.

    The rewriters are the training's own: warmup, rloo, grpo and model. --prompted adds --model as a prompted one, and
    --answered has it answer some of the questions. The same command resumes an interrupted measuring.

    Example:  reground train rewriter eval --task hotpotqa --out runs/rewriter
    """
    task = load_task(order.task, order.data)
    count = len(choose(task, settings_of(order, METHOD)))
    if order.dry_run:
        say(f"eval: {count} questions, {order.answered} answered, {order.prompted * count} prompted rewritings")
        return
    parts = []
    groups = asyncio.run(_measured(order, task, count, quiet=voice.quiet))
    for title, suffix, wanted, rewriters in groups:
        if not (metrics := measurable(rewriters, wanted)):
            continue
        data = json.dumps(record(rewriters, metrics), indent=2, ensure_ascii=False)
        write_text(order.out / f"eval-{slug(order.task)}{suffix}.json", data + "\n")
        shown = tables(rewriters, metrics, f"{title}, {order.passages} passages")
        parts += [f"#{each.markdown()}" for each in shown]
        consoles()[0].print(*(each.terminal() for each in shown), sep="\n")
    if not parts:
        raise ConfigurationError(f"{task.name} has no metric of what is found: give --answered and a --model to answer")
    parts.append(f"#{rewritings_table(groups[0][-1]).markdown()}")
    write_section(order.out, f"eval {slug(order.task)}", "\n\n".join(parts))


async def _measured(
    order: RewriterEval, task: Task, count: int, *, quiet: bool
) -> list[tuple[str, str, list[str], list[Rewriter]]]:
    """What each rewriter finds, and with --answered what the reader makes of it.

    Each with its title, the end of its file's name, and the metrics that count. count: the questions.
    """
    own = [str(order.out / name) for name in ("warmup", "rloo", "grpo", "model") if (order.out / name).is_dir()]
    options = ModelOptions(threads=order.model_options.threads, dtype=order.model_options.dtype)
    async with AsyncExitStack() as stack:
        reader = bool(order.answered or order.prompted)
        method = await _pipeline(order, task, stack, reader=reader, quiet=quiet)
        methods = {QUESTION: replace(method, mode="retrieve")}
        if order.prompted:
            name = f"{PROMPTED} {order.model}"
            methods[name] = replace(method, mode="rewrite", rewriter=method.model, rewriter_style="prompted")
        for name in own if order.models is None else listed(order.models):
            model = await stack.enter_async_context(opened_model(f"hf/{name}", options, quiet=quiet))
            methods[name] = replace(method, mode="rewrite", rewriter=model, rewriter_style="trained", logprobs=False)

        async def measured(what: str, limit: int, *, reads: bool) -> list[Rewriter]:
            settings = settings_of(replace(order, limit=limit), METHOD)
            made = []
            for name, each in methods.items():
                with Progress(f"{what}: {name}", shown=not quiet) as progress:

                    def observer(now: RunProgress, shown: Progress = progress) -> None:
                        shown.count(now.done, now.total, "questions")

                    used = each if reads else without_reader(each)
                    run = _run(order, task, used, name)
                    made.append(await measure_rewriter(name, task, used, settings, run, observer=observer))
            return made

        groups = [("What the queries find", "", [*FOUND], await measured("searching", order.limit, reads=False))]
        if order.answered:
            metrics = list(dict.fromkeys([*metrics_of(task), *FOUND]))
            answered = await measured("answering", min(order.answered, count), reads=True)
            groups.append(("What the reader answers", "-answered", metrics, answered))
    return groups


def _run(order: RewriterEval, task: Task, method: RewriteRetrieveRead, name: str) -> Path:
    """The run of a rewriter: another one for other weights, documents, readers or settings."""
    parts = [getattr(part, "identity", getattr(part, "name", "")) for part in (method.rewriter, method.model)]
    about = (task.name, name, *parts, getattr(method.retriever, "name", ""), sorted(resolved(method).items()))
    return order.out / "eval" / hashlib.sha256(repr(about).encode()).hexdigest()[:16]


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(rewriter_app, name="rewriter")
