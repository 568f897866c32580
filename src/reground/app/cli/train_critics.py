"""`reground train critics`: fit the critics of CR-Planner to trees of planning, in four stages."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import typer

from reground.app.benchmark import setup_of
from reground.app.cli import train
from reground.app.cli.console import human_tokens, note, print_tables, say
from reground.app.cli.flags import ConfigFile, flattened
from reground.app.options import Cluster, Data, Fresh, Trees
from reground.core.errors import EXIT_FAILED_QUESTIONS, ConfigurationError, DataError
from reground.evaluation.compare import Cell
from reground.evaluation.runner import choose
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_training_task
from reground.methods.cr_planner import CRPlanner
from reground.training.critics import collect as trees
from reground.training.critics import evaluate as measuring
from reground.training.critics.fit import fit_critics, planned
from reground.training.critics.pairs import gold_passages, make_pairs, sort_pairs
from reground.training.report import write_section
from reground.training.settings import FILE, CriticFit, PairSettings, part_of
from reground.treesearch.mcts import Settings

METHOD = "cr_planner"

critics_app = typer.Typer(
    help="Fit CR-Planner's critics: collect trees, make pairs of them, fit, evaluate, all in one --out. Without a "
    "stage, all of them in order; what is finished is not done again."
    "\n\nExample:  reground train critics --task hotpotqa_train --limit 60 --set candidates=2 --out runs/critics"
)


@dataclass(frozen=True, kw_only=True)
class CriticsFolder(train.TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/critics")


@dataclass(frozen=True, kw_only=True)
class CriticsCollect(CriticsFolder, Trees, Cluster):
    """The options of `train critics collect`."""


@train.stage(
    critics_app,
    *("task", "corpus", "model", "limit", "simulations", "settings", "budget__tokens", "out", "dry_run", "quiet"),
)
def collect(options: CriticsCollect, config: ConfigFile = None) -> None:
    """Search CR-Planner's decisions with gold answers as reward. Each question gets a tree with values and visits.

    The task is a training split, such as hotpotqa_train; for a ranking task the planner ranks. The same command
    resumes an interrupted run and pays for no call twice. A budget applies to one tree. Exit code 3: some questions
    have no tree; the same command tries them again.

    Example:  reground train critics collect --task hotpotqa_train --limit 20 --simulations 32 --set candidates=2
    """
    if not _collect(options):
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def _collect(options: CriticsCollect) -> bool:
    """Collect trees and report them. Returns False where some questions have none."""
    task = load_training_task(options.task, options.data)
    search = Settings(
        simulations=options.simulations, in_flight=options.in_flight, c=options.exploration, seed=options.seed
    )
    method = f"{METHOD}+ranking" if trees.ranks(task) else METHOD
    if options.dry_run:
        setup_of(options, [method], task)  # refuses what is wrong
        questions = choose(task, train.settings_of(options, METHOD))
        remaining = sum(not trees.tree_file(options.out, each.id).is_file() for each in questions)
        say(f"collect: {remaining} of {len(questions)} trees to grow, {options.simulations} simulations each")
        return True
    collected = asyncio.run(_collected(options, task, method, trees.Searching(search, options.rollout)))
    forest = [each.tree for each in collected.trees]
    mean = sum(tree.root.mean or 0.0 for tree in forest) / max(1, len(forest))
    say(f"{len(forest)} trees in {options.out / 'trees'}: mean reward {mean:.3f}")
    for example, why in collected.failed.items():
        note(f"{example} has no tree: {why}")
    return not collected.failed


async def _collected(options: CriticsCollect, task: Task, method: str, searching: trees.Searching) -> trees.Collected:
    cell = Cell(method=method, tokens=None)
    async with train.opened_bench(options, task, [method]) as bench:
        ready = bench.configure(cell, train.settings_of(options, METHOD), options.budget, searching)
        settings = replace(ready.settings, budget=options.budget)  # limits one tree; no method is scaled to it
        with options.progress("collecting trees") as progress:
            done = 0

            def on_simulation(trees: int) -> None:
                nonlocal done
                done += 1
                progress.count(done, trees * options.simulations, f"simulations for {trees} trees")

            def on_tree(result: trees.GrownTree, total: int) -> None:
                root, usage = result.tree.root, result.usage
                cost = f"{usage.calls} calls, {human_tokens(usage.tokens)} tokens" if usage.calls else "kept"
                stopped = f", stopped by {result.tree.stopped}" if result.tree.stopped else ""
                visits = f"{root.visits} visits, mean reward {root.mean or 0.0:.3f}"
                if not options.quiet:
                    note(f"{result.example} (of {total}): {visits}, {cost}{stopped}")

            return await trees.collect_trees(
                task,
                cast("CRPlanner", ready.method),
                settings,
                searching,
                options.out,
                sandbox=bench.sandbox,
                elsewhere=ready.elsewhere,
                on_tree=on_tree,
                on_simulation=on_simulation,
            )


@dataclass(frozen=True, kw_only=True)
class CriticsData(CriticsFolder, PairSettings, Data):
    """The options of `train critics data`."""


@train.stage(critics_app)
def data(options: CriticsData, config: ConfigFile = None) -> None:
    """Make pairs of siblings: at each node of a tree, the best child against every worse one.

    A share of the questions is held out to measure with. A table says how many pairs were kept, and why others were
    dropped.

    Example:  reground train critics data --out runs/critics
    """
    settings = part_of(options, PairSettings)
    gold = _gold(options) if options.gold_documents else None
    if options.dry_run:
        pairs = sort_pairs(list(trees.read_trees(options.out)), settings, gold)
    else:
        pairs = make_pairs(options.out, settings, gold)
    table = measuring.pairs_table(pairs.report(settings))
    if not options.dry_run:
        write_section(options.out, "data", f"#{table.markdown()}")
    print_tables(table)


def _gold(options: CriticsData) -> dict[str, frozenset[str]]:
    """The gold passages of the questions whose trees are here. Raises ConfigurationError where none are known."""
    file = options.out / "questions.json"
    try:
        task = load_training_task(str(json.loads(file.read_text(encoding="utf-8"))["task"]), options.data)
    except (OSError, ValueError, KeyError):
        raise DataError("there are no questions here: collect trees first", path=file) from None
    if not (gold := gold_passages(task)):
        raise ConfigurationError(f"{task.name} knows no gold passages: leave out gold_documents")
    return gold


@dataclass(frozen=True, kw_only=True)
class CriticsFit(CriticsFolder, CriticFit, Fresh):
    """The options of `train critics fit`."""


@train.stage(
    critics_app, "engine", "base", "epochs", "learning_rate", "models", "precision", "out", "dry_run", "fresh", "quiet"
)
def fit(options: CriticsFit, config: ConfigFile = None) -> None:
    """Fit models to the pairs with a pairwise ranking loss. The same command resumes an interrupted fit.

    Example:  reground train critics fit --engine lm --base hf-user/model --models shared
    """
    settings = part_of(options, CriticFit)
    if options.dry_run:
        for name, rows in planned(options.out, settings).items():
            say(f"fit: {name} on {len(rows)} pairs, {settings.epochs:g} passes over them")
        return
    with options.progress() as progress:
        critic = fit_critics(
            options.out,
            settings,
            fresh=options.fresh,
            on_step=lambda name, step: progress.on_step(step, f"fitting {name}: "),
            on_mix=lambda: progress.show("scoring held-out pairs"),
        )
    say(f"the critics are in {critic}: --set critic=trained:{options.out}")


@train.stage(critics_app, name="eval")
def evaluate(options: CriticsFolder, config: ConfigFile = None) -> None:
    """Measure the critics on held-out pairs, against random, the planner's order and other simple rules.

    Example:  reground train critics eval --out runs/critics
    """
    if options.dry_run:
        counts = measuring.held_out_texts(options.out)
        say(", ".join(f"{kind}: {count} texts to score" for kind, count in counts.items()))
        return

    def on_kind(kind: str, pairs: int) -> None:
        if not options.quiet:
            note(f"measuring {kind} on {pairs} held-out pairs")

    report = measuring.evaluate(options.out, on_kind=on_kind)
    tables = measuring.report_tables(report)
    constant = [] if report.constant is None else [f"The best constant sub-goals: `--set critic={report.constant}`"]
    write_section(options.out, "eval", "\n\n".join([*(f"#{table.markdown()}" for table in tables), *constant]))
    print_tables(*tables)
    for line in constant:
        say(line.replace("`", ""))


@dataclass(frozen=True, kw_only=True)
class TrainCritics(CriticsCollect, CriticsData, CriticsFit):
    """The options of `train critics`: those of all stages."""

    task: str | None = field(default=None, metadata={"short": "-t"})  # type: ignore[assignment]
    """A training split to collect trees of, such as hotpotqa_train; without one, the folder's trees are taken."""
    threads: int | None = field(default=None, metadata=FILE)
    """Processor threads; those of the model, --threads, by default."""
    seed: int = 0
    """Draws the questions, the samples, the held-out questions and the order of the pairs."""


@critics_app.callback(invoke_without_command=True)
@flattened()
def critics(context: typer.Context, options: TrainCritics, config: ConfigFile = None) -> None:
    """Fit CR-Planner's critics: collect trees, make pairs of them, fit, evaluate, all in one --out.

    Without a stage, all of them in order; what is finished is not done again. The result is used with
    `--set critic=trained:OUT`. Exit code 3: some questions have no tree.

    Example:  reground train critics --task hotpotqa_train --limit 60 --set candidates=2 --out runs/critics
    """
    if context.invoked_subcommand is not None:
        sources = {context.get_parameter_source(name) for name in context.params}
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):  # they would be lost
            stage = context.invoked_subcommand
            raise ConfigurationError(f"options stand behind the stage: reground train critics {stage} --out ...")
        return
    whole = options.task is None or _collect(options)
    if options.dry_run and not (options.out / "trees").is_dir():
        say("the other stages can tell what they would do when there are trees")
        return
    data(options)
    if options.dry_run and not (options.out / "data" / "report.json").is_file():
        say("the fit can tell what it would do when there are pairs")
        return
    fit(options)
    if not options.dry_run:
        evaluate(options)
    if not whole:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)
