"""`reground train critics`: fit the critics of CR-Planner to trees of planning, in four stages."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.cli.train import METHOD, collect_trees_of
from reground.app.options import Quiet, Trees
from reground.app.options_critics import (
    CriticsCollect,
    CriticsData,
    CriticsEval,
    CriticsFit,
    CriticsFolder,
    TrainCritics,
)

if TYPE_CHECKING:
    from rich.console import Console

    from reground.evaluation.report import Table
    from reground.evaluation.task import Task
    from reground.training.critics.fit import CriticFit
    from reground.training.settings import PairSettings

critics_app = typer.Typer(
    help="Fit CR-Planner's critics: collect trees, make pairs of them, fit, evaluate, all in one --out. Without a "
    "stage, all of them in order; what is finished is not done again."
    "\n\nExample:  reground train critics --task hotpotqa_train --limit 60 --set candidates=2 --out runs/critics",
)


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
    console, err = common.consoles()
    whole = order.task is None or _collected(console, order, quiet=voice.quiet)
    if order.dry_run and not (order.out / "trees").is_dir():
        common.say(console, "the other stages can tell their cost when there are trees")
        return
    _make_pairs(console, order, _task_of(order) if order.gold_documents else None)
    if order.dry_run and not (order.out / "data" / "report.json").is_file():
        common.say(console, "the fit can tell its cost when there are pairs")
        return
    _fit(console, err, order, quiet=voice.quiet)
    if not order.dry_run:
        _evaluate(console, err, order, quiet=voice.quiet)
    if not whole:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def _refuse_options(context: typer.Context) -> None:
    """Options before a stage would be the chain's and be lost. Raises ConfigurationError."""
    from reground.core.errors import ConfigurationError

    sources = {name: context.get_parameter_source(name) for name in context.params}
    if any(source is not None and source.name == "COMMANDLINE" for source in sources.values()):
        stage = context.invoked_subcommand
        raise ConfigurationError(f"options stand behind the stage: reground train critics {stage} --out ...")


@critics_app.command()
@flattened
def collect(order: CriticsCollect, voice: Quiet, config: ConfigFile = None) -> None:
    """Search CR-Planner's decisions with gold answers as reward. Each question gets a tree with values and visits.

    The task is a training split, such as hotpotqa_train; for a ranking task the planner ranks. The same command
    resumes an interrupted run and pays for no call twice. A budget applies to one tree. Exit code 3: some questions
    have no tree; the same command tries them again.

    Example:  reground train critics collect --task hotpotqa_train --limit 20 --simulations 32 --set candidates=2
    """
    console, _ = common.consoles()
    if not _collected(console, order, quiet=voice.quiet):
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


@critics_app.command()
@flattened
def data(order: CriticsData, config: ConfigFile = None) -> None:
    """Make pairs of siblings: at each node of a tree, the best child against every worse one.

    A share of the questions is held out to measure with. A table says how many pairs were kept, and why others were
    dropped.

    Example:  reground train critics data --min-visits 3 --min-margin 0.1
    """
    console, _ = common.consoles()
    _make_pairs(console, order, _task_of(order) if order.gold_documents else None)


@critics_app.command()
@flattened
def fit(order: CriticsFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fit models to the pairs with a pairwise ranking loss. The same command resumes an interrupted fit.

    Example:  reground train critics fit --engine lm --base hf-user/model --models shared
    """
    console, err = common.consoles()
    _fit(console, err, order, quiet=voice.quiet)


@critics_app.command(name="eval")
@flattened
def evaluate(order: CriticsEval, voice: Quiet, config: ConfigFile = None) -> None:
    """Measure the critics on held-out pairs, against random, the planner's order and other simple rules.

    Example:  reground train critics eval --out runs/critics
    """
    console, err = common.consoles()
    _evaluate(console, err, order, quiet=voice.quiet)


def _collected(console: Console, order: Trees, *, quiet: bool) -> bool:
    if isinstance(order, CriticsCollect) and order.dry_run:
        common.say(console, asyncio.run(_collection(order)))
        return True
    return collect_trees_of(order, quiet=quiet)


async def _collection(order: CriticsCollect) -> str:
    """What collecting would cost, by trees that are searched with made-up replies."""
    from reground.app import catalogue
    from reground.evaluation.runner import EvalSettings, choose
    from reground.evaluation.tasks import load_training_task
    from reground.methods.cr_planner import CRPlanner
    from reground.training.critics.collect import NotCalled, ranks, tree_cost, tree_file
    from reground.treesearch.tree import Settings

    task = load_training_task(order.task, order.data)
    method = f"{METHOD}+ranking" if ranks(task) else METHOD
    questions = choose(task, EvalSettings(METHOD, order.model, limit=order.limit or None, seed=order.seed))
    left = [each for each in questions if not tree_file(order.out, each.id).is_file()]
    searchable = order.corpus is not None or getattr(task, "corpus", None) is not None
    planner = catalogue.build_method(
        method,
        model=NotCalled(),
        retriever=NotCalled() if searchable else None,
        form=task.form,
        settings={**order.settings, "critic": "first"},
    )
    assert isinstance(planner, CRPlanner)
    told = f"collect: {len(left)} of {len(questions)} trees to grow, {order.simulations} simulations each"
    if not left:
        return told
    searching = Settings(simulations=order.simulations, in_flight=order.in_flight, c=order.exploration, seed=order.seed)
    asked = [each.question for each in left]
    each = await tree_cost(planner, asked, searching, order.rollout, most=order.budget.tokens)
    tokens = len(left) * each.tokens
    time = "the time with --speed" if order.speed is None else common.human_time(tokens / order.speed)
    memory = _memory(order.model)
    return f"{told}: about {len(left) * each.calls:.0f} calls, {common.human_tokens(round(tokens))} tokens, {time}" + (
        f", {memory / 1e6:.0f} MB for the model's weights" if memory else ""
    )


def _memory(model: str) -> int:
    """The bytes of the weights of a model in this process, if it is a GGUF file that is known; 0 otherwise."""
    from reground.core.paths import expanded
    from reground.models.pull import ALIASES

    provider, _, name = model.partition("/")
    if provider != "gguf":
        return 0
    known = ALIASES.get(name.lower())
    return (known.size or 0) if known is not None else expanded(name).stat().st_size if expanded(name).is_file() else 0


def _make_pairs(console: Console, order: PairSettings, task: Task | None) -> None:
    from reground.training.critics.collect import read_trees
    from reground.training.critics.evaluate import pairs_table
    from reground.training.critics.pairs import make_pairs, sort_pairs
    from reground.training.report import write_section

    assert isinstance(order, CriticsFolder)
    gold = None if task is None else _gold(task)
    if order.dry_run:
        _show(console, pairs_table(sort_pairs(list(read_trees(order.out)), order, gold).report(order)))
        return
    table = pairs_table(make_pairs(order.out, order, gold).report(order))
    write_section(order.out, "data", _part(table))
    _show(console, table)


def _gold(task: Task) -> dict[str, frozenset[str]]:
    """The gold passages of a task's questions. Raises ConfigurationError where it knows none."""
    from reground.core.errors import ConfigurationError
    from reground.training.critics.pairs import gold_passages

    if not (gold := gold_passages(task)):
        raise ConfigurationError(f"{task.name} knows no gold passages: leave out --gold-documents")
    return gold


def _task_of(order: CriticsData | TrainCritics) -> Task:
    """The task whose questions the trees are of."""
    from reground.core.errors import DataError
    from reground.evaluation.tasks import load_training_task

    file = order.out / "questions.json"
    try:
        return load_training_task(str(json.loads(file.read_text(encoding="utf-8"))["task"]), order.data)
    except (OSError, ValueError, KeyError):
        raise DataError("there are no questions here: collect trees first", path=file) from None


def _fit(console: Console, err: Console, order: CriticsFit | TrainCritics, *, quiet: bool) -> None:
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.critics.fit import estimate, fit_critics
    from reground.training.fitting import Step

    settings = _settings(order)
    if order.dry_run:
        from reground.training.critics.evaluate import cost_table

        _show(console, cost_table(estimate(order.out, settings)))
        return
    shown: dict[str, FitProgress] = {}
    with ExitStack() as lines:

        def on_step(name: str, step: Step) -> None:
            if name not in shown:
                lines.close()
                shown[name] = lines.enter_context(FitProgress(err, f"fitting {name}", shown=not quiet))
            shown[name].on_step(step)

        def on_mix() -> None:
            lines.close()
            if not quiet:
                lines.enter_context(err.status("scoring held-out pairs"))

        critic = fit_critics(order.out, settings, fresh=order.fresh, on_step=on_step, on_mix=on_mix)
    common.say(console, f"the critics are in {critic}: --set critic=trained:{order.out}")


def _settings(order: CriticsFit | TrainCritics) -> CriticFit:
    from reground.training.critics.fit import CriticFit
    from reground.training.settings import Fitting

    numbers = {name: getattr(order, name) for name in Fitting.__dataclass_fields__ if hasattr(order, name)}
    kinds = tuple(common.listed(order.kinds))
    chosen = {"models": order.models, "margin": order.margin, "kinds": kinds, "features": not order.text_only}
    return CriticFit.of(order.engine, base=order.base, fitting=numbers, **chosen)


def _evaluate(console: Console, err: Console, order: CriticsEval | TrainCritics, *, quiet: bool) -> None:
    from reground.training.critics.evaluate import (
        calibration_table,
        held_out_texts,
        mix_table,
        rates_table,
        trust_table,
    )
    from reground.training.critics.evaluate import evaluate as measure
    from reground.training.report import write_section

    if order.dry_run:
        counts = held_out_texts(order.out)
        common.say(console, ", ".join(f"{kind}: {count} texts to score" for kind, count in counts.items()))
        return

    def on_kind(kind: str, pairs: int) -> None:
        if not quiet:
            common.say(err, f"measuring {kind} on {pairs} held-out pairs")

    report = measure(order.out, on_kind=on_kind)
    made = rates_table(report), mix_table(report), trust_table(report), calibration_table(report)
    tables = [table for table in made if table is not None]
    constant = [] if report.constant is None else [f"The best constant sub-goals: `--set critic={report.constant}`"]
    write_section(order.out, "eval", "\n\n".join([*map(_part, tables), *constant]))
    for table in tables:
        _show(console, table)
    for line in constant:
        common.say(console, line.replace("`", ""))


def _part(table: Table) -> str:
    return f"#{table.markdown()}"  # a section's tables stand below its own heading


def _show(console: Console, table: Table) -> None:
    console.print(table.terminal())


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(critics_app, name="critics")
