"""`reground train`: trains helper models; here, how the trees are collected that critics learn from."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli import train_export
from reground.app.cli.eval_job import slug

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.options import Trees
    from reground.evaluation.task import Task
    from reground.training.critics.collect import Collected, Grown

METHOD = "cr_planner"

train_app = typer.Typer(no_args_is_help=True, help="Train helper models on training splits.")


def collect_trees_of(order: Trees, *, quiet: bool) -> bool:
    """Collect trees and report them. Returns False where some questions have none."""
    from reground.evaluation.tasks import load_training_task

    task = load_training_task(order.task, order.data)
    console, err = common.consoles()
    return _told(console, err, asyncio.run(_collect(order, task, err, quiet=quiet)))


async def _collect(order: Trees, task: Task, err: Console, *, quiet: bool) -> Collected:
    from reground.app import catalogue
    from reground.app.cli.collect_progress import CollectProgress
    from reground.app.cli.preparing import open_benches
    from reground.app.cluster.opening import opened_pool, placed
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings
    from reground.methods.cr_planner import CRPlanner
    from reground.training.critics.collect import Searching, collect_trees, ranks
    from reground.treesearch.tree import Settings

    cell = Cell(method=f"{METHOD}+ranking" if ranks(task) else METHOD, tokens=None)
    out = order.out or Path("runs") / slug("trees", order.task)
    base = EvalSettings(METHOD, order.model, limit=order.limit or None, seed=order.seed, concurrency=order.concurrency)
    search = Settings(simulations=order.simulations, in_flight=order.in_flight, c=order.exploration, seed=order.seed)
    searching = Searching(search, order.rollout)
    catalogue.check_price(order.model, order.model_options, order.budget)
    async with AsyncExitStack() as opened:
        (bench,) = await open_benches(order, [task], [cell.method], out, err, opened, quiet=quiet)
        pool = await opened.enter_async_context(opened_pool(order, [cell.method], partial(common.say, err)))
        configured = bench.configure(cell, base, order.budget)
        ready = placed(configured, pool, order.task, cell, bench.tuned, searching)
        settings = replace(ready.settings, budget=order.budget)  # limits one tree; no method is scaled to it
        assert isinstance(ready.method, CRPlanner)

        progress = opened.enter_context(CollectProgress(err, order.simulations, shown=not quiet))

        def tell(grown: Grown, total: int) -> None:
            progress.on_tree(_line(grown, total), kept=not grown.usage.calls)

        return await collect_trees(
            task,
            ready.method,
            settings,
            searching,
            out,
            sandbox=bench.sandbox,
            elsewhere=ready.elsewhere,
            on_tree=tell,
            on_simulation=progress.on_simulation,
        )


def _line(grown: Grown, total: int) -> str:
    root = grown.tree.root
    cost = (
        f"{grown.usage.calls} calls, {common.human_tokens(grown.usage.tokens)} tokens" if grown.usage.calls else "kept"
    )
    stopped = f", stopped by {grown.tree.stopped}" if grown.tree.stopped else ""
    return f"{grown.example} (of {total}): {root.visits} visits, mean reward {root.mean or 0.0:.3f}, {cost}{stopped}"


def _told(console: Console, err: Console, collected: Collected) -> bool:
    from reground.training.critics.collect import rewards
    from reground.treesearch.tree import pairs

    trees = [grown.tree for grown in collected.grown]
    preferences = sum(1 for tree in trees for _ in pairs(tree.root))
    mean = sum(rewards(trees)) / len(trees) if trees else 0.0
    told = f"{len(trees)} trees in {collected.out / 'trees'}: mean reward {mean:.3f}, {preferences} preference pairs"
    common.say(console, told)
    for example, why in collected.failed.items():
        common.say(err, f"{example} has no tree: {why}")
    return not collected.failed


def register(cli: typer.Typer) -> None:
    """Add the commands of this file, and of those beside it."""
    train_export.register(train_app)
    cli.add_typer(train_app, name="train")
