"""`reground train rewriter`: a query rewriter learns by warm-up and reinforcement learning."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.eval_job import slug
from reground.app.cli.flags import flattened
from reground.app.cli.rewriter_pipeline import METHOD, recorded, searching, with_reader
from reground.app.options import Quiet
from reground.app.options_rewriter import RewriterCollect, RewriterEval, RewriterPpo, RewriterWarmup

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from reground.evaluation.task import Example, Task
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
    from reground.training.ppo.optimise import Judge, Judged, Metrics
    from reground.training.rewriter.reward import PipelineReward
    from reground.training.rewriter.train import Divided

_TOLD = frozenset(
    [
        "reward",
        "kl",
        "beta",
        "entropy",
        "length",
        "ended",
        "empty",
        "invalid",
        "explained_variance",
        "learning_rate",
        "loss",
        "policy_loss",
        "value_loss",
        "clipped",
        "update_kl",
        "validation",
        "collapsed",
        "seconds",
        "used",
    ]
)
"""Metrics of an iteration that are no parts of the reward."""
REWRITTEN, PLAIN = "rewritten", "plain"

rewriter_app = typer.Typer(
    no_args_is_help=True,
    help="Train a query rewriter: collect rewritings of a prompted model, warmup on those that led to the answer, ppo "
    "on the reward of the whole pipeline, eval; all in one --out."
    "\n\nExample:  reground train rewriter collect --task hotpotqa_train --limit 400 --out runs/rewriter",
)


@rewriter_app.command()
@flattened
def collect(order: RewriterCollect, voice: Quiet, config: ConfigFile = None) -> None:
    """Have a prompted model rewrite training questions, and see which rewritings lead to the answer.

    A second run takes each question itself as the query. Both are ordinary runs, in OUT/rewritten and OUT/plain. The
    same command resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train rewriter collect --task hotpotqa_train --limit 400 --model openai/my-model
    """
    from reground.core.errors import ConfigurationError
    from reground.evaluation.tasks import load_training_task

    console, err = common.consoles()
    task = load_training_task(order.task, order.data)
    if order.passages_only and order.ray is not None:
        raise ConfigurationError("--passages-only asks one short call a question, here: leave out --ray")
    if order.dry_run:
        total = min(order.limit or len(task.examples()), len(task.examples()))
        common.say(console, f"collect: {total} questions, at most {(1 if order.passages_only else 3) * total} calls")
        return
    failed = asyncio.run(_collect(order, task, err, quiet=voice.quiet))
    common.say(console, f"rewritings in {order.out / REWRITTEN}: reground train rewriter warmup --out {order.out}")
    common.end_if_failed(err, failed)


async def _collect(order: RewriterCollect, task: Task, err: Console, *, quiet: bool) -> int:
    """Carry out both runs. Returns the number of failed questions."""
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.app.cli.preparing import open_benches
    from reground.app.cluster.opening import opened_pool, placed
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings, choose, evaluate
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
    from reground.training.rewriter.reward import without_reader

    cells = {REWRITTEN: Cell(method=METHOD, tokens=None), PLAIN: Cell(method=f"{METHOD}+retrieve", tokens=None)}
    order = replace(order, settings={"total": order.passages, **order.settings})
    base = EvalSettings(
        METHOD, order.model, limit=order.limit or None, seed=order.seed, concurrency=order.concurrency,
        retry_failed=True,
    )  # fmt: skip
    failed = 0
    methods = [cell.method for cell in cells.values()]
    async with AsyncExitStack() as opened:
        (bench,) = await open_benches(order, [task], methods, order.out, err, opened, quiet=quiet)
        pool = await opened.enter_async_context(opened_pool(order, methods, partial(common.say, err)))
        works = {name: Work(cell, len(choose(task, base))) for name, cell in cells.items()}
        with EvalProgress(err, works, shown=not quiet) as progress:
            for name, cell in cells.items():
                ready = placed(bench.configure(cell, base, order.budget), pool, order.task, cell, bench.tuned)
                method, settings = ready.method, ready.settings
                assert isinstance(method, RewriteRetrieveRead)
                if order.passages_only:
                    method = without_reader(replace(method, rewriter=bench.model, rewriter_style="prompted"))
                    settings = replace(settings, method_settings={**settings.method_settings, "reader": "none"})
                done = await evaluate(
                    task,
                    method,
                    settings,
                    order.out / name,
                    observer=partial(progress.on_progress, name),
                    elsewhere=ready.elsewhere,
                )
                failed += done.summary.failed
    return failed


@rewriter_app.command()
@flattened
def warmup(order: RewriterWarmup, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the rewritings that led to the answer, and on questions that need none.

    The result, OUT/warmup, is used with --rewriter hf/OUT/warmup. The same command resumes an interrupted fit.

    Example:  reground train rewriter warmup --base smollm2 --proof passages
    """
    from reground.training.fitting import require_training

    require_training()
    from reground.app.cli.background import in_background
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.report import write_section
    from reground.training.rewriter.train import WARMUP
    from reground.training.rewriter.warmup import warmup_rows
    from reground.training.rows import write_demonstrations
    from reground.training.settings import fitting_of
    from reground.training.sft import fit_named

    console, err = common.consoles()
    kept = warmup_rows(order.out / REWRITTEN, order.out / PLAIN, order)
    dropped = ", ".join(f"{count} {why}" for why, count in kept.dropped.items() if count)
    told = f"{kept.rewritings} rewritings and {kept.copies} copies" + (f"; left out: {dropped}" if dropped else "")
    common.say(console, told)
    if order.dry_run:
        return
    write_demonstrations(order.out / "data" / f"{WARMUP}.jsonl", kept.rows)
    write_section(order.out, WARMUP, told)
    base = order.base or "smollm2"
    with FitProgress(err, "warm-up", shown=not voice.quiet) as progress:
        fit = partial(fit_named, order.out, WARMUP, kept.rows, base, fitting_of(order), fresh=order.fresh)
        place = asyncio.run(in_background(partial(fit, on_step=progress.on_step, on_note=progress.on_note)))
    common.say(console, f"the warmed-up rewriter is in {place}: --rewriter hf/{place}")


@rewriter_app.command()
@flattened
def ppo(order: RewriterPpo, voice: Quiet, config: ConfigFile = None) -> None:
    """Improve the rewriter by proximal policy optimisation on what its queries bring.

    It begins with OUT/warmup, or with --base. The result, OUT/model, is used with --rewriter hf/OUT/model. The same
    command resumes an interrupted training. With --control the same budget goes to TRL's RLOO or GRPO.

    Example:  reground train rewriter ppo --task hotpotqa_train --iterations 30 --episodes 256
    """
    from reground.training.fitting import require_training

    require_training()
    from reground.evaluation.tasks import load_training_task

    console, err = common.consoles()
    task = load_training_task(order.task, order.data)
    weights = _weights(order.reward, task)
    parts = _divided(order, task, weights)
    if parts.known and order.control is None:
        common.say(err, str(parts))
    if order.dry_run:
        replies, questions = order.iterations * order.episodes, len(parts.learning)
        common.say(console, f"ppo: {replies} replies to {questions} questions, {len(parts.validation)} for validation")
        return
    place = asyncio.run(_optimised(order, task, weights, parts, err, quiet=voice.quiet))
    common.say(console, f"the rewriter is in {place}: --rewriter hf/{place}")


def _divided(order: RewriterPpo, task: Task, weights: dict[str, float]) -> Divided:
    """The questions to learn from, and those for validation, without those that the reward learns nothing from."""
    from reground.core.errors import DataError
    from reground.evaluation.runner import EvalSettings, choose
    from reground.training.rewriter.reward import teaches
    from reground.training.rewriter.train import WARMUP, divided, learnt

    drawn = choose(task, EvalSettings(METHOD, "", limit=None, seed=order.seed))
    every = [each for each in drawn if teaches(each, weights)]
    if len(every) <= order.validation:
        raise DataError(
            f"{task.name} has {len(every)} questions whose answers {order.reward} can reward, "
            f"too few for --validation {order.validation}"
        )
    known = learnt(order.out / "data" / f"{WARMUP}.jsonl")
    return divided(every, validation=order.validation, limit=order.limit or None, known=known)


async def _optimised(
    order: RewriterPpo,
    task: Task,
    weights: dict[str, float],
    parts: Divided,
    err: Console,
    *,
    quiet: bool,
) -> Path:
    from reground.app.cli.background import in_background
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.report import write_report, write_section
    from reground.training.rewriter.reward import PipelineReward
    from reground.training.rewriter.train import WARMUP, fit_control, optimise_rewriter
    from reground.training.settings import Optimising

    settings = Optimising(**{each.name: getattr(order, each.name) for each in fields(Optimising)})
    async with AsyncExitStack() as opened:
        method = await _pipeline(order, task, weights, err, opened, quiet=quiet)
        judge = _here(PipelineReward(method, task, weights))
        begin = order.base or str(order.out / WARMUP)
        same: dict[str, Any] = {
            "questions": parts.learning,
            "lora_rank": order.lora_rank,
            "layers": order.layers,
            "rewarded": weights,
            "pipeline": recorded(method, task),
            "fresh": order.fresh,
        }
        if order.control is not None:
            with FitProgress(err, order.control, shown=not quiet) as progress:
                fit = partial(fit_control, order.out, begin, order.control, settings, judge, **same)
                place = await in_background(partial(fit, on_step=progress.on_step))
        else:

            def told(number: int, metrics: Metrics) -> None:
                if not quiet:
                    common.say(err, _line(number, order.iterations, metrics))

            fit = partial(optimise_rewriter, order.out, begin, settings, judge, **same, validation=parts.validation)
            place = await in_background(partial(fit, on_iteration=told))
            write_section(order.out, "ppo", f"{parts}.")
    write_report(order.out)
    return place


def _here(reward: PipelineReward) -> Judge[Example]:
    """The reward, computed in this event loop, where models and documents were opened, whichever loop asks for it."""
    loop = asyncio.get_running_loop()

    async def judge(example: Example, text: str) -> Judged:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reward(example, text), loop))

    return judge


def _weights(said: str, task: Task) -> dict[str, float]:
    """The reward's metrics and their weights. Raises ConfigurationError for words that are none."""
    from reground.core.errors import ConfigurationError
    from reground.training.rewriter.reward import RETRIEVAL, paper_weights

    if said == "retrieval":
        return dict(RETRIEVAL)
    if said == "paper":
        return paper_weights(task)
    found: dict[str, float] = {}
    for part in said.split(","):
        name, _, weight = part.partition("=")
        try:
            found[name.strip()] = float(weight or 1)
        except ValueError:
            raise ConfigurationError(f"--reward is retrieval, paper or METRIC=WEIGHT,..., not {part!r}") from None
    return found


async def _pipeline(
    order: RewriterPpo,
    task: Task,
    weights: dict[str, float],
    err: Console,
    opened: AsyncExitStack,
    *,
    quiet: bool,
) -> RewriteRetrieveRead:
    """The method whose answers are rewarded; a reader is opened only where the reward needs one."""
    from reground.training.rewriter.reward import retriever_only

    if retriever_only(weights):
        return await searching(order, task, err, opened, quiet=quiet)
    return await with_reader(order, task, err, opened, quiet=quiet)


def _line(number: int, total: int, metrics: Metrics) -> str:
    names = set(metrics) - _TOLD
    parts = f" ({', '.join(f'{name} {metrics[name]:.3f}' for name in sorted(names))})" if names else ""
    checked = f", validation {metrics['validation']:.3f}" if "validation" in metrics else ""
    explained = f" explaining {metrics['explained_variance']:.0%}" if "explained_variance" in metrics else ""
    used = f", {metrics['used']:.0%} learnt from" if metrics["used"] < 1 else ""
    back = ", collapsed: back to the best weights" if metrics.get("collapsed") else ""
    return (
        f"iteration {number} of {total}: reward {metrics['reward']:.3f}{parts}{checked}, divergence "
        f"{metrics['kl']:.2f}, entropy {metrics['entropy']:.2f}, {metrics['length']:.0f} tokens, "
        f"{metrics['ended']:.0%} ended, {metrics['empty']:.0%} empty, {metrics['invalid']:.0%} unusable{used}, "
        f"value loss {metrics['value_loss']:.3f}{explained}, {metrics['clipped']:.0%} clipped, "
        f"{metrics['seconds']:.0f} s, {common.human_time((total - number) * metrics['seconds'])} left{back}"
    )


@rewriter_app.command(name="eval")
@flattened
def evaluate(order: RewriterEval, voice: Quiet, config: ConfigFile = None) -> None:
    """Measure what rewriters find, against the question itself as the query; no reader is needed for that.

    The rewriters are the training's own: warmup, rloo, grpo and model. --prompted adds --model as a prompted one, and
    --answered has it answer some of the questions. The same command resumes an interrupted measuring.

    Example:  reground train rewriter eval --task hotpotqa --out runs/rewriter
    """
    from reground.training.fitting import require_training

    require_training()
    from reground.app.cli.measured_rewriters import FOUND_TITLE, measured_rewriters
    from reground.evaluation.results import write_text
    from reground.evaluation.runner import EvalSettings, choose
    from reground.evaluation.tasks import load_task
    from reground.training.report import write_section
    from reground.training.rewriter.evaluate import difference_table, record, rewritings_table, table

    console, err = common.consoles()
    task = load_task(order.task, order.data)
    examples = choose(task, EvalSettings(METHOD, "", limit=order.limit or None, seed=order.seed))
    if order.dry_run:
        calls = order.prompted * len(examples)
        common.say(console, f"eval: {len(examples)} questions, {order.answered} answered, {calls} prompted rewritings")
        return
    groups = asyncio.run(measured_rewriters(order, task, examples, err, quiet=voice.quiet))
    parts = []
    for title, (rewriters, metrics) in groups.items():
        said = json.dumps(record(rewriters, metrics), indent=2, ensure_ascii=False)
        answered = "" if title == FOUND_TITLE else "-answered"
        write_text(order.out / f"eval-{slug(order.task)}{answered}.json", said + "\n")
        shown = [table(rewriters, metrics, f"{title}, {order.passages} passages"), difference_table(rewriters, metrics)]
        parts += [f"#{each.markdown()}" for each in shown]
        console.print(*(each.terminal() for each in shown), sep="\n")
    rewriters, _ = next(iter(groups.values()))
    parts.append(f"#{rewritings_table(rewriters).markdown()}")
    write_section(order.out, f"eval {slug(order.task)}", "\n\n".join(parts))


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(rewriter_app, name="rewriter")
