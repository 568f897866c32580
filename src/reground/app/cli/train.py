"""`reground train`: what helper models learn from, and their training."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from reground.app.cli import _common as common
from reground.app.cli import eval as options
from reground.app.cli.eval_run import EXIT_FAILED_QUESTIONS, with_critics

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.budget import Budget
    from reground.evaluation.runner import EvalSettings
    from reground.evaluation.task import Task
    from reground.methods._cr_planner.tree import Rollout
    from reground.models.options import ModelOptions
    from reground.training.trees import Collected, Grown
    from reground.treesearch.settings import Settings

METHOD = "cr_planner"
_SEARCH = "Search"

train_app = typer.Typer(no_args_is_help=True, help="Collect what helper models are trained on.")


@dataclass(frozen=True)
class _Order:
    task: Task
    model: str
    corpus: Path | None
    language: str | None
    sandbox: str
    out: Path
    settings: dict[str, object]
    options: ModelOptions
    budget: Budget
    base: EvalSettings
    search: Settings
    rollout: Rollout
    quiet: bool


@train_app.command()
def trees(
    task: options.TaskOption,
    model: options.ModelOption = None,
    data: options.DataOption = None,
    corpus: options.CorpusOption = None,
    language: common.Language = None,
    sandbox: options.SandboxOption = "bubblewrap",
    out: options.OutOption = None,
    limit: options.LimitOption = 20,
    seed: options.SeedOption = 0,
    simulations: Annotated[int, typer.Option(min=1, help="Simulations a tree.", rich_help_panel=_SEARCH)] = 32,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Simulations of a tree at once.", rich_help_panel=_SEARCH)
    ] = 4,
    exploration: Annotated[
        float, typer.Option(min=0, help="c of UCB1: how much untried moves are preferred.", rich_help_panel=_SEARCH)
    ] = 1.4142135623730951,
    rollout: Annotated[
        Literal["answer", "first"],
        typer.Option(
            help="How a simulation ends: with the answer at once, or planning on with the first of all candidates.",
            rich_help_panel=_SEARCH,
        ),
    ] = "answer",
    concurrency: options.ConcurrencyOption = 4,
    budget_tokens: common.BudgetTokens = None,
    budget_calls: common.BudgetCalls = None,
    budget_seconds: common.BudgetSeconds = None,
    budget_usd: common.BudgetUsd = None,
    setting: common.SetOption = None,
    config: common.ConfigFile = None,
    quiet: options.QuietOption = False,
    base_url: common.BaseUrl = None,
    api_key_env: common.ApiKeyEnv = None,
    price: common.PriceOption = None,
    context: common.Context = None,
    slots: common.Slots = None,
    adapter: common.Adapter = None,
    cache: common.Cache = None,
) -> None:
    """Search CR-Planner's decisions with gold answers as reward: a tree a question, values and visits at every node.

    The task is a training split, such as hotpotqa_train; for tasks of rankings the planner ranks. The same command
    again goes on where it was; no call is paid twice. Budgets are for one tree. Exit code 3: some questions have no
    tree; the same command tries them again.

    Example:  reground train trees --task hotpotqa_train --limit 20 --simulations 32 --set candidates=2 --out trees
    """
    from reground.evaluation.runner import EvalSettings
    from reground.evaluation.tasks import load_training_task
    from reground.treesearch.settings import Settings

    file = common.read_config(config)
    named = model or "gguf/smollm2"
    budget = common.budget_from(file, tokens=budget_tokens, calls=budget_calls, seconds=budget_seconds, usd=budget_usd)
    flags: dict[str, Any] = {"base_url": base_url, "api_key_env": api_key_env, "price": price, "context": context}
    order = _Order(
        task=load_training_task(task, data),
        model=named,
        corpus=corpus,
        language=language,
        sandbox=sandbox,
        out=out if out is not None else Path("runs") / options.slug("trees", task),
        settings=common.parse_settings(file, setting),
        options=common.model_options(file, **flags, slots=slots, adapter=adapter, cache=cache),
        budget=budget,
        base=EvalSettings(METHOD, named, limit=limit or None, repeats=1, seed=seed, concurrency=concurrency),
        search=Settings(simulations=simulations, in_flight=in_flight, c=exploration, seed=seed),
        rollout=rollout,
        quiet=quiet,
    )
    console, err = common.consoles()
    _finish(console, err, asyncio.run(_collect(order, err)))


async def _collect(order: _Order, err: Console) -> Collected:
    from reground.app import catalogue
    from reground.app.asking import close
    from reground.app.cli.ask import _bring_model
    from reground.app.cli.progress import AskProgress
    from reground.app.evaluating import open_bench, settings_by_method
    from reground.evaluation.compare import Cell
    from reground.methods.cr_planner import CRPlanner
    from reground.training.trees import collect_trees, ranks

    method = f"{METHOD}+ranking" if ranks(order.task) else METHOD
    catalogue.check_price(order.model, order.options, order.budget)
    async with AsyncExitStack() as opened:
        with AskProgress(err, shown=not order.quiet) as preparing:
            await asyncio.to_thread(_bring_model, order.model, preparing.on_pull)
            model = catalogue.load_model(order.model, order.options)
            opened.push_async_callback(close, model)
            settings = settings_by_method(order.settings, [method])
            settings = await with_critics(settings, order.options, opened, preparing)
            bench = await open_bench(
                order.task,
                model,
                [method],
                corpus=order.corpus,
                options=order.options,
                settings=settings,
                sandbox=order.sandbox,
                language=order.language,
                on_index=preparing.on_index,
                on_report=preparing.on_report,
            )
            opened.push_async_callback(close, bench.retriever)
        cell = Cell(method=method, tokens=None)
        planner = bench.method(cell)
        assert isinstance(planner, CRPlanner)

        def tell(grown: Grown, total: int) -> None:
            if not order.quiet:
                err.print(_line(grown, total), soft_wrap=True, markup=False, highlight=False)

        configured = bench.configure(cell, order.base, order.budget)
        return await collect_trees(
            order.task,
            planner,
            configured,
            order.search,
            order.out,
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
    """Add the commands of this file."""
    cli.add_typer(train_app, name="train")
