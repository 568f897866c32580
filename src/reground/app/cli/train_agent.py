"""`reground train agent`: the Search Agent learns from its own trajectories, and becomes small."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_agent import AgentFit, AgentGrow, AgentMix, AgentRank

if TYPE_CHECKING:
    from rich.console import Console

    from reground.evaluation.task import Task

METHOD = "search_agent"

agent_app = typer.Typer(
    no_args_is_help=True,
    help="Train the Search Agent on its own trajectories: grow them, rank the samples of each step, mix what is "
    "taught, fit a model of the same size or smaller; all in one --out."
    "\n\nExample:  reground train agent grow --task hotpotqa_train --limit 160 --out runs/agent",
)


@agent_app.command()
@flattened
def grow(order: AgentGrow, voice: Quiet, config: ConfigFile = None) -> None:
    """Let the agent answer training questions, and keep every step with its samples.

    An ordinary run in OUT/grown; gold answers only score it. The examples in its prompts rotate. The same command
    resumes an interrupted run.

    Example:  reground train agent grow --task hotpotqa_train --limit 160 --model openai/my-model
    """
    from reground.evaluation.tasks import load_training_task
    from reground.training.agent.stages import GROWN, usable

    console, err = common.consoles()
    task = load_training_task(order.task, order.data)
    total = min(order.limit or len(task.examples()), len(task.examples())) * order.repeats
    if order.dry_run:
        common.say(console, f"grow: {total} trajectories")
        return
    asyncio.run(_grow(order, task, total, err, quiet=voice.quiet))
    common.say(console, f"trajectories in {order.out / GROWN}: {usable(order.out).describe()}")


async def _grow(order: AgentGrow, task: Task, total: int, err: Console, *, quiet: bool) -> None:
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.app.cli.preparing import open_benches
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings, choose, evaluate
    from reground.evaluation.splits import record_questions
    from reground.training.agent.stages import GROWN

    cell = Cell(method=METHOD, tokens=None)
    base = EvalSettings(
        METHOD, order.model, limit=order.limit or None, seed=order.seed, concurrency=order.concurrency,
        repeats=order.repeats,
    )  # fmt: skip
    rotated = replace(order, settings={"exemplars": "rotated", **order.settings})
    async with AsyncExitStack() as opened:
        (bench,) = await open_benches(rotated, [task], [METHOD], order.out, err, opened, quiet=quiet)
        ready = bench.configure(cell, base, order.budget)
        record_questions(order.out, task.name, choose(task, base))
        with EvalProgress(err, {GROWN: Work(cell, total)}, shown=not quiet) as progress:
            watch = partial(progress.on_progress, GROWN)
            await evaluate(task, ready.method, ready.settings, order.out / GROWN, observer=watch)


@agent_app.command()
@flattened
def rank(order: AgentRank, voice: Quiet, config: ConfigFile = None) -> None:
    """Have a model rank the samples of each step; the trajectories stay as they are.

    The same command resumes an interrupted ranking.

    Example:  reground train agent rank --model openai/my-larger-model
    """
    from reground.training.agent.stages import RANKING

    console, err = common.consoles()
    if order.dry_run:
        common.say(console, f"rank: {_rankable(order)} steps")
        return
    ranked, unread = asyncio.run(_ranked(order, err, quiet=voice.quiet))
    common.say(console, f"{ranked} steps in {order.out / RANKING}; {unread} rankings could not be read")


async def _ranked(order: AgentRank, err: Console, *, quiet: bool) -> tuple[int, int]:
    from reground.app import catalogue
    from reground.app.asking import close
    from reground.app.cli.preparing import bring_model
    from reground.app.cli.progress import AskProgress
    from reground.training.agent.rank import Ranker
    from reground.training.agent.stages import rank as rank_steps

    def told(done: int, total: int) -> None:
        if not quiet and (done % 50 == 0 or done == total):
            common.say(err, f"{done} of {total} steps")

    with AskProgress(err, shown=not quiet) as preparing:
        await asyncio.to_thread(bring_model, order.model, preparing.on_pull)
    model = catalogue.load_model(order.model, order.model_options)
    try:
        return await rank_steps(
            order.out, Ranker(model=model, style=order.style), concurrency=order.concurrency, on_turn=told
        )
    finally:
        await close(model)


def _rankable(order: AgentRank) -> int:
    from reground.training.agent.stages import grown

    return sum(len(turn.samples) > 1 for turn in grown(order.out))


@agent_app.command()
@flattened
def mix(order: AgentMix, voice: Quiet, config: ConfigFile = None) -> None:
    """Make the training data of the grown steps: one conversation a step, without examples in its prompt.

    They are written to OUT/data/mixture.jsonl.

    Example:  reground train agent mix --by ranking
    """
    from reground.training.agent.mix import mixture
    from reground.training.agent.stages import MIXTURE, grown, read_ranking_file
    from reground.training.rows import write_rows

    console, _ = common.consoles()
    ranking = read_ranking_file(order.out) if order.by == "ranking" else None
    made = mixture(grown(order.out), by=order.by, ranking=ranking, seed=order.seed, most=order.most)
    steps = ", ".join(f"{count} {name}" for name, count in made.steps.most_common())
    dropped = ", ".join(f"{count} {why}" for why, count in made.dropped.most_common())
    common.say(console, f"{len(made.rows)} steps ({steps})" + (f"; left out: {dropped}" if dropped else ""))
    if not order.dry_run:
        write_rows(order.out / "data" / f"{MIXTURE}.jsonl", made.rows)


@agent_app.command()
@flattened
def fit(order: AgentFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the mixture.

    The result, OUT/NAME, is used as --model hf/OUT/NAME with --set shots=0. The same command resumes an interrupted
    fit.

    Example:  reground train agent fit --base smollm2
    """
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.agent.stages import MIXTURE, fit_agent
    from reground.training.fitting import fitting_of
    from reground.training.rows import Demonstration, read_rows

    console, err = common.consoles()
    rows = read_rows(order.out / "data" / f"{MIXTURE}.jsonl", Demonstration)
    if order.dry_run:
        common.say(console, f"fit: {len(rows)} steps, {order.epochs:g} passes over them")
        return
    settings = fitting_of(order)
    with FitProgress(err, order.name, shown=not voice.quiet) as progress:
        place = fit_agent(
            order.out, rows, order.base, settings, name=order.name, fresh=order.fresh, on_step=progress.on_step
        )
    common.say(console, f"the agent is in {place}: --model hf/{place} --set shots=0")


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(agent_app, name="agent")
