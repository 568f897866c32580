"""`reground train rewriter`: a query rewriter learns by warm-up and reinforcement learning."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import typer

from reground.app.benchmark import Bench, setup_of
from reground.app.cli import train
from reground.app.cli.console import end_if_failed, human_time, note, say
from reground.app.cli.flags import ConfigFile
from reground.app.cli.progress import opened
from reground.app.options import Benchmark, Cluster
from reground.app.runs import resolved
from reground.app.session import Session, Setup
from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.runner import EvalSettings, choose
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_training_task
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.training.fitting import require_training
from reground.training.report import write_section
from reground.training.rewriter import reward as rewards
from reground.training.rewriter.warmup import Divided, divided, question_ids, warmup_rows
from reground.training.rows import write_demonstrations
from reground.training.settings import FILE, Fitting, Optimising, WarmUp, part_of

METHOD = "rewrite_retrieve_read"
REWRITTEN, PLAIN = "rewritten", "plain"
rewriter_app = typer.Typer(
    no_args_is_help=True,
    help="Train a query rewriter: collect rewritings of a prompted model, warmup on those that led to the answer, ppo "
    "on the reward of the whole pipeline; all in one --out."
    "\n\nExample:  reground train rewriter collect --task hotpotqa_train --limit 400 --out runs/rewriter",
)


@dataclass(frozen=True, kw_only=True)
class RewriterFolder(train.TrainingFolder):
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
    passages_only: bool = field(default=False, metadata=FILE)
    """Do not answer the questions: the passages alone show whether a rewriting was good (proof = "passages")."""


@train.stage(rewriter_app, "task", "corpus", "model", "limit", "settings", "out", "dry_run", "quiet")
def collect(options: RewriterCollect, config: ConfigFile = None) -> None:
    """Have a prompted model rewrite training questions, and see which rewritings lead to the answer.

    A second run takes each question itself as the query. Both are ordinary runs, in OUT/rewritten and OUT/plain. The
    same command resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train rewriter collect --task hotpotqa_train --limit 400 --model openai/my-model
    """
    task = load_training_task(options.task, options.data)
    if options.passages_only and options.ray is not None:
        raise ConfigurationError("passages_only asks one short call a question, here: leave out --ray")
    if options.dry_run:
        total = len(choose(task, train.settings_of(options, METHOD)))
        say(f"collect: {total} questions, at most {(1 if options.passages_only else 3) * total} calls")
        return

    def changed(bench: Bench, ready: Configured) -> Configured:
        if not options.passages_only:
            return ready
        method = cast("RewriteRetrieveRead", ready.method)
        settings = replace(ready.settings, method_settings={**ready.settings.method_settings, "reader": "none"})
        return replace(
            ready,
            settings=settings,
            method=replace(method, model=rewards.NO_READER, rewriter=bench.model, rewriter_style="prompted"),
        )

    own = replace(options, settings={"total": options.passages, **options.settings})
    cells = {
        options.out / REWRITTEN: Cell(method=METHOD, tokens=None),
        options.out / PLAIN: Cell(method=f"{METHOD}+retrieve", tokens=None),
    }
    summaries = asyncio.run(train.run_cells(own, task, cells, changed))
    say(f"rewritings in {options.out / REWRITTEN}: reground train rewriter warmup --out {options.out}")
    end_if_failed(sum(summary.failed for summary in summaries))


@dataclass(frozen=True, kw_only=True)
class RewriterWarmup(RewriterFolder, WarmUp, Fitting, train.Base):
    """The options of `train rewriter warmup`."""

    epochs: float = 3.0
    max_length: int = 512


@train.stage(rewriter_app, *(name for name in train.FIT if name != "name"))
def warmup(options: RewriterWarmup, config: ConfigFile = None) -> None:
    """Fine-tune a model on the rewritings that led to the answer, and on questions that need none.

    The result, OUT/warmup, is used with --rewriter hf/OUT/warmup. The same command resumes an interrupted fit.

    Example:  reground train rewriter warmup --base smollm2
    """
    require_training()
    out = options.out
    for run in (out / REWRITTEN, out / PLAIN):
        if not (run / "scores.jsonl").is_file():
            raise DataError("nothing was collected here: run reground train rewriter collect first", path=run)
    data = warmup_rows(out / REWRITTEN, out / PLAIN, options)
    say(data.describe())
    if options.dry_run:
        return
    place = train.fit_rows(options, data.rows, out=out, name="warmup", base=options.base, fresh=options.fresh)
    write_demonstrations(out / "data" / "warmup.jsonl", data.rows)
    write_section(out, "warmup", data.describe())
    say(f"the warmed-up rewriter is in {place}: --rewriter hf/{place}")


@dataclass(frozen=True, kw_only=True)
class RewriterPpo(Optimising, Searching, train.Base):
    """The options of `train rewriter ppo`."""

    limit: int = 0
    """The number of questions to learn from, drawn by the seed; 0 means all."""
    base: str = ""
    """The weights to begin with, as in hf/; those of the warm-up by default."""
    validation: int = field(default=64, metadata={"min": 1, **FILE})
    """The number of training questions that are set aside to choose the best weights by."""
    reward: str = "retrieval"
    """What a rewriting earns: retrieval (hit and reciprocal rank, without a reader), paper (exact match, F1 and hit of
    the whole pipeline), or metrics with weights, such as hit=1,gold recall=0.5."""
    threads: int | None = field(default=None, metadata=FILE)
    """Processor threads; those of the model, --threads, by default."""
    seed: int = 0
    """Draws the questions and the samples."""


@train.stage(
    rewriter_app,
    *("task", "corpus", "base", "reward", "iterations", "episodes", "learning_rate", "lora_rank", "limit"),
    *("out", "dry_run", "fresh", "quiet"),
)
def ppo(options: RewriterPpo, config: ConfigFile = None) -> None:
    """Improve the rewriter by proximal policy optimisation on what its queries bring.

    It begins with OUT/warmup, or with --base. The result, OUT/model, is used with --rewriter hf/OUT/model. The same
    command resumes an interrupted training.

    Example:  reground train rewriter ppo --task hotpotqa_train --iterations 30 --episodes 256
    """
    require_training()
    task = load_training_task(options.task, options.data)
    weights = rewards.reward_weights(options.reward, task)
    examples = choose(task, EvalSettings(METHOD, "", limit=None, seed=options.seed))
    useful = [each for each in examples if rewards.teaches(each, weights)]
    if len(useful) <= options.validation:
        raise DataError(
            f"{task.name} has {len(useful)} questions whose answers {options.reward} can reward, "
            f"too few to set aside validation = {options.validation}"
        )
    earlier = question_ids(options.out / "data" / "warmup.jsonl")
    parts = divided(useful, validation=options.validation, limit=options.limit or None, earlier=earlier)
    if parts.overlap:
        note(str(parts))
    setup = setup_of(replace(options, settings={"total": options.passages, **options.settings}), [METHOD], task)
    if rewards.retriever_only(weights):
        setup = replace(setup, models={rewards.NO_READER.name: rewards.NO_READER})
    if not options.base and not (options.out / "warmup").is_dir():
        raise ConfigurationError(f"no warm-up in {options.out}: run reground train rewriter warmup, or give --base")
    if options.dry_run:
        replies, questions = options.iterations * options.episodes, len(parts.learning)
        say(f"ppo: {replies} replies to {questions} questions, {len(parts.validation)} for validation")
        return
    place = asyncio.run(_optimised(options, setup, task, weights, parts))
    say(f"the rewriter is in {place}: --rewriter hf/{place}")


async def _optimised(options: RewriterPpo, setup: Setup, task: Task, weights: dict[str, float], parts: Divided) -> Path:
    from reground.training.rewriter.train import optimise_rewriter  # torch

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(opened(partial(Session.open, setup), quiet=options.quiet))
        method = cast("RewriteRetrieveRead", Bench(task, session).method(Cell(method=METHOD, tokens=None)))
        reward = rewards.PipelineReward(method, task, weights)
        recorded: dict[str, Any] = {
            "reward": weights,
            "task": task.name,
            "retriever": getattr(method.retriever, "name", None),
            "reader": method.model.name,
            **{f"method.{name}": value for name, value in resolved(method).items()},
        }
        with options.progress("ppo") as progress:

            def on_iteration(number: int, metrics: dict[str, float]) -> None:
                untold = {"seconds", "beta", "learning_rate", "loss", "policy_loss", "update_kl", "kl"}
                values = {"reward": 0.0, "divergence": metrics["kl"], "value_loss": 0.0, "clipped": 0.0} | metrics
                text = ", ".join(f"{key.replace('_', ' ')} {values[key]:.3f}" for key in values if key not in untold)
                seconds, total = metrics["seconds"], options.iterations
                time = f"{seconds:.0f} s, {human_time((total - number) * seconds)} left"
                progress.show(f"iteration {number} of {total}: {text}, {time}", now=True)

            work = partial(
                optimise_rewriter,
                options.out,
                options.base or str(options.out / "warmup"),
                part_of(options, Optimising),
                reward.judge(asyncio.get_running_loop()),
                questions=parts.learning,
                validation=parts.validation,
                reward=recorded,
                fresh=options.fresh,
                on_iteration=on_iteration,
            )
            place = await train.in_background(work)
    write_section(options.out, "ppo", f"{parts}.")
    return place
