"""`reground train`: collects the data that helper models learn from."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli import train_export
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.config import ConfigFile
from reground.app.cli.eval import slug
from reground.app.cli.flags import flattened
from reground.app.options import Quiet, Trees

if TYPE_CHECKING:
    from rich.console import Console

    from reground.evaluation.task import Task
    from reground.training.trees import Collected, Grown

METHOD = "cr_planner"

train_app = typer.Typer(no_args_is_help=True, help="Collect what helper models are trained on.")


@train_app.command()
@flattened
def trees(order: Trees, voice: Quiet, config: ConfigFile = None) -> None:
    """Search CR-Planner's decisions with gold answers as reward. Each question gets a tree with values and visits.

    The task is a training split, such as hotpotqa_train; for a ranking task the planner ranks. The same command
    resumes an interrupted run and pays for no call twice. A budget applies to one tree. Exit code 3: some questions
    have no tree; the same command tries them again.

    Example:  reground train trees --task hotpotqa_train --limit 20 --simulations 32 --set candidates=2 --out trees
    """
    from reground.evaluation.tasks import load_training_task

    task = load_training_task(order.task, order.data)
    console, err = common.consoles()
    _finish(console, err, asyncio.run(_collect(order, task, err, quiet=voice.quiet)))


async def _collect(order: Trees, task: Task, err: Console, *, quiet: bool) -> Collected:
    from reground.app import catalogue
    from reground.app.cli.preparing import open_benches
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings
    from reground.methods.cr_planner import CRPlanner
    from reground.training.trees import collect_trees, ranks
    from reground.treesearch.settings import Settings

    cell = Cell(method=f"{METHOD}+ranking" if ranks(task) else METHOD, tokens=None)
    out = order.out or Path("runs") / slug("trees", order.task)
    base = EvalSettings(METHOD, order.model, limit=order.limit or None, seed=order.seed, concurrency=order.concurrency)
    catalogue.check_price(order.model, order.model_options, order.budget)
    async with AsyncExitStack() as opened:
        (bench,) = await open_benches(order, [task], [cell.method], out, err, opened, quiet=quiet)
        ready = bench.configure(cell, base, order.budget)
        settings = replace(ready.settings, budget=order.budget)  # limits one tree; no method is scaled to it
        assert isinstance(ready.method, CRPlanner)

        def tell(grown: Grown, total: int) -> None:
            if not quiet:
                err.print(_line(grown, total), soft_wrap=True, markup=False, highlight=False)

        return await collect_trees(
            task,
            ready.method,
            settings,
            Settings(simulations=order.simulations, in_flight=order.in_flight, c=order.exploration, seed=order.seed),
            out,
            rollout=order.rollout,
            sandbox=bench.sandbox,
            on_tree=tell,
        )


def _line(grown: Grown, total: int) -> str:
    root = grown.tree.root
    cost = (
        f"{grown.usage.calls} calls, {common.human_tokens(grown.usage.tokens)} tokens" if grown.usage.calls else "kept"
    )
    stopped = f", stopped by {grown.tree.stopped}" if grown.tree.stopped else ""
    return f"{grown.example} (of {total}): {root.visits} visits, mean reward {root.mean or 0.0:.3f}, {cost}{stopped}"


def _finish(console: Console, err: Console, collected: Collected) -> None:
    from reground.training.trees import rewards
    from reground.treesearch.tree import pairs

    trees = [grown.tree for grown in collected.grown]
    preferences = sum(1 for tree in trees for _ in pairs(tree.root))
    mean = sum(rewards(trees)) / len(trees) if trees else 0.0
    console.print(
        f"{len(trees)} trees in {collected.out / 'trees'}: mean reward {mean:.3f}, {preferences} preference pairs",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    for example, why in collected.failed.items():
        err.print(f"{example} has no tree: {why}", soft_wrap=True, markup=False, highlight=False)
    if collected.failed:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file, and of those beside it."""
    train_export.register(train_app)
    cli.add_typer(train_app, name="train")
