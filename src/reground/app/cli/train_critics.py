"""`reground train critics`: fit the critics of CR-Planner to trees of planning, in four stages."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import typer

from reground.app import catalogue
from reground.app.cli.config import ConfigFile
from reground.app.cli.console import consoles, human_tokens, note, say
from reground.app.cli.flags import Command, everyday, flattened
from reground.app.cli.progress import Progress
from reground.app.cli.train import TrainingFolder, opened_bench, settings_of
from reground.app.options import Cluster, Data, Fresh, Quiet, Trees
from reground.core.errors import EXIT_FAILED_QUESTIONS, ConfigurationError, DataError
from reground.evaluation.compare import Cell
from reground.evaluation.runner import choose
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_training_task
from reground.methods.cr_planner import CRPlanner
from reground.training.critics import evaluate as measuring
from reground.training.critics.collect import (
    Collected,
    Grown,
    NotCalled,
    Searching,
    collect_trees,
    ranks,
    read_trees,
    tree_cost,
    tree_file,
)
from reground.training.critics.fit import fit_critics, planned
from reground.training.critics.pairs import gold_passages, make_pairs, sort_pairs
from reground.training.fitting import Step
from reground.training.report import write_section
from reground.training.settings import FILE, CriticFit, PairSettings, part_of
from reground.treesearch.tree import Settings

METHOD = "cr_planner"

critics_app = typer.Typer(
    help="Fit CR-Planner's critics: collect trees, make pairs of them, fit, evaluate, all in one --out. Without a "
    "stage, all of them in order; what is finished is not done again."
    "\n\nExample:  reground train critics --task hotpotqa_train --limit 60 --set candidates=2 --out runs/critics",
)


@dataclass(frozen=True, kw_only=True)
class CriticsFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/critics")


@dataclass(frozen=True, kw_only=True)
class CriticsCollect(CriticsFolder, Trees, Cluster):
    """The options of `train critics collect`."""


@dataclass(frozen=True, kw_only=True)
class CriticsData(CriticsFolder, PairSettings, Data):
    """The options of `train critics data`."""


@dataclass(frozen=True, kw_only=True)
class CriticsFit(CriticsFolder, CriticFit, Fresh):
    """The options of `train critics fit`."""

    fresh: bool = False
    """Begin the fit again and discard its checkpoints."""


@dataclass(frozen=True, kw_only=True)
class TrainCritics(CriticsCollect, PairSettings, CriticsFit):
    """The options of `train critics`: those of all stages."""

    task: str | None = field(default=None, metadata={"short": "-t"})  # type: ignore[assignment]
    """A training split to collect trees of, such as hotpotqa_train; without one, the folder's trees are taken."""

    threads: int | None = field(default=None, metadata=FILE)
    """Processor threads; those of the model, --threads, by default."""

    seed: int = 0
    """Draws the questions, the samples, the held-out questions and the order of the pairs."""

    def __post_init__(self) -> None:
        PairSettings.__post_init__(self)
        CriticFit.__post_init__(self)


@critics_app.callback(invoke_without_command=True)
@flattened
def critics(context: typer.Context, order: TrainCritics, voice: Quiet, config: ConfigFile = None) -> None:
    """Fit CR-Planner's critics: collect trees, make pairs of them, fit, evaluate, all in one --out.

    Without a stage, all of them in order; what is finished is not done again. The result is used with
    `--set critic=trained:OUT`. Exit code 3: some questions have no tree.

    Example:  reground train critics --task hotpotqa_train --limit 60 --set candidates=2 --out runs/critics
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    whole = order.task is None or _collect(order, quiet=voice.quiet)
    if order.dry_run and not (order.out / "trees").is_dir():
        say("the other stages can tell what they would do when there are trees")
        return
    _make_pairs(order)
    if order.dry_run and not (order.out / "data" / "report.json").is_file():
        say("the fit can tell what it would do when there are pairs")
        return
    _fit(order, quiet=voice.quiet)
    if not order.dry_run:
        _evaluate(order, quiet=voice.quiet)
    if not whole:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def _refuse_options(context: typer.Context) -> None:
    """Options before a stage would be the chain's and be lost. Raises ConfigurationError."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    if any(source is not None and source.name == "COMMANDLINE" for source in sources.values()):
        stage = context.invoked_subcommand
        raise ConfigurationError(f"options stand behind the stage: reground train critics {stage} --out ...")


@critics_app.command(cls=Command)
@everyday("task", "corpus", "model", "limit", "simulations", "settings", "budget__tokens", "out", "dry_run", "quiet")
@flattened
def collect(order: CriticsCollect, voice: Quiet, config: ConfigFile = None) -> None:
    """Search CR-Planner's decisions with gold answers as reward. Each question gets a tree with values and visits.

    The task is a training split, such as hotpotqa_train; for a ranking task the planner ranks. The same command
    resumes an interrupted run and pays for no call twice. A budget applies to one tree. Exit code 3: some questions
    have no tree; the same command tries them again.

    Example:  reground train critics collect --task hotpotqa_train --limit 20 --simulations 32 --set candidates=2
    """
    if not _collect(order, quiet=voice.quiet):
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


@critics_app.command(cls=Command)
@flattened
def data(order: CriticsData, config: ConfigFile = None) -> None:
    """Make pairs of siblings: at each node of a tree, the best child against every worse one.

    A share of the questions is held out to measure with. A table says how many pairs were kept, and why others were
    dropped.

    Example:  reground train critics data --out runs/critics
    """
    _make_pairs(order)


@critics_app.command(cls=Command)
@everyday("engine", "base", "epochs", "learning_rate", "models", "precision", "out", "dry_run", "fresh", "quiet")
@flattened
def fit(order: CriticsFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fit models to the pairs with a pairwise ranking loss. The same command resumes an interrupted fit.

    Example:  reground train critics fit --engine lm --base hf-user/model --models shared
    """
    _fit(order, quiet=voice.quiet)


@critics_app.command(name="eval", cls=Command)
@flattened
def evaluate(order: CriticsFolder, voice: Quiet, config: ConfigFile = None) -> None:
    """Measure the critics on held-out pairs, against random, the planner's order and other simple rules.

    Example:  reground train critics eval --out runs/critics
    """
    _evaluate(order, quiet=voice.quiet)


def _collect(order: CriticsCollect, *, quiet: bool) -> bool:
    """Collect trees and report them. Returns False where some questions have none."""
    task = load_training_task(order.task, order.data)
    search = Settings(simulations=order.simulations, in_flight=order.in_flight, c=order.exploration, seed=order.seed)
    searching = Searching(search, order.rollout)
    if order.dry_run:
        say(asyncio.run(_cost(order, task, searching)))
        return True
    collected = asyncio.run(_collected(order, task, searching, quiet=quiet))
    trees = [grown.tree for grown in collected.grown]
    mean = sum(tree.root.mean or 0.0 for tree in trees) / max(1, len(trees))
    say(f"{len(trees)} trees in {collected.out / 'trees'}: mean reward {mean:.3f}")
    for example, why in collected.failed.items():
        note(f"{example} has no tree: {why}")
    return not collected.failed


async def _collected(order: CriticsCollect, task: Task, searching: Searching, *, quiet: bool) -> Collected:
    cell = Cell(method=f"{METHOD}+ranking" if ranks(task) else METHOD, tokens=None)
    catalogue.check_price(order.model, order.model_options, order.budget)
    async with opened_bench(order, task, [cell.method], order.out, quiet=quiet) as (bench, configured):
        ready = configured(cell, settings_of(order, METHOD), searching)
        settings = replace(ready.settings, budget=order.budget)  # limits one tree; no method is scaled to it
        with Progress("collecting trees", shown=not quiet) as progress:
            done = 0

            def on_simulation(trees: int) -> None:
                nonlocal done
                done += 1
                progress.count(done, trees * order.simulations, f"simulations for {trees} trees")

            def on_tree(grown: Grown, total: int) -> None:
                root, usage = grown.tree.root, grown.usage
                cost = f"{usage.calls} calls, {human_tokens(usage.tokens)} tokens" if usage.calls else "kept"
                stopped = f", stopped by {grown.tree.stopped}" if grown.tree.stopped else ""
                if not quiet:
                    visits = f"{root.visits} visits, mean reward {root.mean or 0.0:.3f}"
                    note(f"{grown.example} (of {total}): {visits}, {cost}{stopped}")

            return await collect_trees(
                task, cast("CRPlanner", ready.method), settings, searching, order.out, sandbox=bench.sandbox,
                elsewhere=ready.elsewhere, on_tree=on_tree, on_simulation=on_simulation,
            )  # fmt: skip


async def _cost(order: CriticsCollect, task: Task, searching: Searching) -> str:
    """What collecting would cost, by trees that are searched with made-up replies."""
    questions = choose(task, settings_of(order, METHOD))
    left = [each.question for each in questions if not tree_file(order.out, each.id).is_file()]
    searchable = order.corpus is not None or getattr(task, "corpus", None) is not None
    planner = catalogue.build_method(
        f"{METHOD}+ranking" if ranks(task) else METHOD, model=NotCalled(),
        retriever=NotCalled() if searchable else None, form=task.form, settings={**order.settings, "critic": "first"},
    )  # fmt: skip
    trees = f"collect: {len(left)} of {len(questions)} trees to grow, {order.simulations} simulations each"
    if not left:
        return trees
    calls, tokens = await tree_cost(cast("CRPlanner", planner), left, searching, most=order.budget.tokens)
    return f"{trees}: about {len(left) * calls:.0f} calls, {human_tokens(round(len(left) * tokens))} tokens"


def _make_pairs(order: Any) -> None:
    """Make the pairs of the folder's trees, or in a dry run show how many there would be. order: a CriticsData."""
    settings = part_of(order, PairSettings)
    gold = _gold(order) if order.gold_documents else None
    if order.dry_run:
        made = sort_pairs(list(read_trees(order.out)), settings, gold)
    else:
        made = make_pairs(order.out, settings, gold)
    table = measuring.pairs_table(made.report(settings))
    if not order.dry_run:
        write_section(order.out, "data", f"#{table.markdown()}")
    consoles()[0].print(table.terminal())


def _gold(order: Any) -> dict[str, frozenset[str]]:
    """The gold passages of the questions whose trees are here. Raises ConfigurationError where none are known."""
    file = order.out / "questions.json"
    try:
        task = load_training_task(str(json.loads(file.read_text(encoding="utf-8"))["task"]), order.data)
    except (OSError, ValueError, KeyError):
        raise DataError("there are no questions here: collect trees first", path=file) from None
    if not (gold := gold_passages(task)):
        raise ConfigurationError(f"{task.name} knows no gold passages: leave out --gold-documents")
    return gold


def _fit(order: CriticsFit, *, quiet: bool) -> None:
    settings = part_of(order, CriticFit)
    if order.dry_run:
        for name, rows in planned(order.out, settings).items():
            say(f"fit: {name} on {len(rows)} pairs, {settings.epochs:g} passes over them")
        return
    shown: dict[str, Progress] = {}
    with ExitStack() as lines:

        def on_step(name: str, step: Step) -> None:
            if name not in shown:
                lines.close()
                shown[name] = lines.enter_context(Progress(f"fitting {name}", shown=not quiet))
            shown[name].on_step(step)

        def on_mix() -> None:
            lines.close()
            if not quiet:
                lines.enter_context(consoles()[1].status("scoring held-out pairs"))

        critic = fit_critics(order.out, settings, fresh=order.fresh, on_step=on_step, on_mix=on_mix)
    say(f"the critics are in {critic}: --set critic=trained:{order.out}")


def _evaluate(order: CriticsFolder, *, quiet: bool) -> None:
    if order.dry_run:
        counts = measuring.held_out_texts(order.out)
        say(", ".join(f"{kind}: {count} texts to score" for kind, count in counts.items()))
        return

    def on_kind(kind: str, pairs: int) -> None:
        if not quiet:
            note(f"measuring {kind} on {pairs} held-out pairs")

    report = measuring.evaluate(order.out, on_kind=on_kind)
    tables = measuring.report_tables(report)
    constant = [] if report.constant is None else [f"The best constant sub-goals: `--set critic={report.constant}`"]
    write_section(order.out, "eval", "\n\n".join([*(f"#{table.markdown()}" for table in tables), *constant]))
    consoles()[0].print(*(table.terminal() for table in tables), sep="\n")
    for line in constant:
        say(line.replace("`", ""))


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(critics_app, name="critics")
