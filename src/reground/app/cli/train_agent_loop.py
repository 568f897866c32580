"""Carries out the stages of `train agent loop`; each resumes, and a finished one is not opened again."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.app.cli import _common as common
from reground.app.cli.agent_stages import answered_by, fitted_by, grown_by, mixed_by, questions_of, ranked_by
from reground.app.options_agent import AgentFit, AgentLoop, AgentMix, AgentRank
from reground.app.options_training import FineTuning
from reground.core.errors import MissingExtra
from reground.evaluation.results import Summary, read_run
from reground.evaluation.splits import without
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_task, load_training_task
from reground.training.agent.loop import (
    Agent,
    Choose,
    Fit,
    Grow,
    Measure,
    Measured,
    Mix,
    Plan,
    Rank,
    Split,
    Stage,
    at_epoch,
    described,
    keep,
    kept,
    plot_generations,
    tables,
)
from reground.training.agent.rank import GROWN, RANKING, read_mixture, usable, write_mixture
from reground.training.fitting import begin
from reground.training.report import write_section
from reground.training.sft import epochs_of

if TYPE_CHECKING:
    from rich.console import Console

    from reground.models.options import ModelOptions

RUNS = "runs"
_MAY_CHANGE = frozenset({"out", "dry_run", "concurrency", "model_options", "generations", "bases"})
"""Options that a resumed loop may be given another value of: what is finished stays as it is."""


def planned(order: AgentLoop) -> Plan:
    """The plan of a loop. Raises ConfigurationError for one that cannot be carried out."""
    return Plan(
        out=order.out,
        teacher=order.model,
        bases=[name.strip() for name in order.bases.split(",")],
        generations=order.generations,
        repeats=order.repeats,
        ranked=order.by == "ranking",
        validated=order.validation is not None,
        tested=order.test_task is not None,
        control=not order.no_control,
        untrained=not order.no_untrained,
    )


def run_loop(order: AgentLoop, plan: Plan, console: Console, err: Console, *, quiet: bool) -> tuple[Path, int]:
    """Carry out a plan. Returns the page with the tables, written after every measurement, and the failed questions.

    Raises typer.Exit where growing goes on only after the same command has tried failed questions again.
    """
    tasks = tasks_of(order)
    settings = {each.name: getattr(order, each.name) for each in dataclasses.fields(order)}
    fixed = {name: str(settings[name]) for name in sorted(settings.keys() - _MAY_CHANGE)}
    begin(order.out / "fit" / "loop", fixed, instead="give another --out")
    session = _Session(order, plan, tasks, err, quiet)
    for stage in plan.stages():
        common.say(console, described(stage))
        if said := session.carry_out(stage):
            common.say(console, f"  {said}")
    return order.out / "report.md", session.failed


def tasks_of(order: AgentLoop) -> dict[str, Task]:
    """The task of each kind of questions. None is drawn for two kinds, also where several name one benchmark.

    Those to train on are drawn first and then those to test on, so that they are the ones of other commands too.
    """
    tasks = {"train": load_training_task(order.task, order.data)}
    drawn = questions_of(order, tasks["train"])
    for split, name, limit in (
        ("test", order.test_task, order.test_limit), ("validation", order.validation, order.validation_limit),
    ):  # fmt: skip
        if name is not None:
            tasks[split] = without(load_task(name, order.data), drawn)
            drawn += questions_of(replace(order, limit=limit), tasks[split])
    return tasks


@dataclass
class _Session:
    order: AgentLoop
    plan: Plan
    tasks: dict[str, Task]
    err: Console
    quiet: bool
    found: list[Measured] = field(default_factory=list)
    failed: int = 0
    passes: dict[Agent, int] = field(default_factory=dict)
    """The pass that was chosen of each fitted agent."""

    def carry_out(self, stage: Stage) -> str:
        """Carry out one stage. Returns what it came to."""
        match stage:
            case Grow():
                return self._grow(stage)
            case Rank():
                return self._rank(stage)
            case Mix():
                return self._mix(stage)
            case Fit():
                return self._fit(stage)
            case Choose():
                return self._choose(stage)
            case Measure():
                return self._report(replace(self._measured(stage, stage.run), epoch=self.passes.get(stage.agent)))

    def _options(self, *, prompted: bool) -> ModelOptions:
        """The adapter and the price are those of the prompted model. prompted: whether they are for it."""
        given = self.order.model_options
        return given if prompted else replace(given, adapter=None, price=None)

    def _using(self, agent: Agent, out: Path, repeats: int) -> AgentLoop:
        """The options with another agent."""
        own = {} if agent.shots is None else {"shots": agent.shots}
        judge = None if out.name == GROWN else self.order.judge
        return replace(
            self.order,
            model=agent.model,
            model_options=self._options(prompted=agent == Agent(self.plan.teacher)),
            out=out,
            repeats=repeats,
            judge=judge,
            settings={**self.order.settings, **own},
        )

    def _grow(self, stage: Grow) -> str:
        run = stage.folder / GROWN
        before = _ended(run)
        begun = (stage.folder / RANKING).exists() or (stage.folder / "data").exists()
        if before is not None and (begun or not before.failed):
            summary = before
        else:
            order = self._using(stage.agent, run, stage.repeats)
            summary = asyncio.run(grown_by(order, self.tasks["train"], stage.folder, self.err, quiet=self.quiet))
            if before is None or summary.failed < before.failed:  # else trying them again changes nothing
                common.end_if_failed(self.err, summary.failed)
        self.failed += summary.failed
        return usable(run).describe() + (f"; {summary.failed} questions failed" if summary.failed else "")

    def _rank(self, stage: Rank) -> str:
        if (stage.folder / RANKING).exists():
            return "ranked"
        ranked, unread = asyncio.run(ranked_by(self._ranking(stage), self.err, quiet=self.quiet))
        return f"{ranked} steps; {unread} rankings could not be read"

    def _ranking(self, stage: Rank) -> AgentRank:
        model = self.order.ranker or self.order.model
        return AgentRank(
            out=stage.folder, model=model, style=self.order.style, concurrency=self.order.concurrency,
            model_options=self._options(prompted=model == self.order.model),
        )  # fmt: skip

    def _mix(self, stage: Mix) -> str:
        most = None if stage.like is None else len(read_mixture(stage.folder, stage.like))
        made = mixed_by(AgentMix(out=stage.folder, by=stage.by, most=most, seed=self.order.seed))
        write_mixture(stage.folder, stage.name, made)
        return made.describe()

    def _fit(self, stage: Fit) -> str:
        if not (stage.folder / stage.name).is_dir():
            shared: dict[str, Any] = {
                each.name: getattr(self.order, each.name) for each in dataclasses.fields(FineTuning)
            }
            order = AgentFit(
                **shared, out=stage.folder, base=stage.base, name=stage.name, keep_epochs=self.plan.validated,
                threads=self.order.model_options.threads, seed=self.order.seed,
            )  # fmt: skip
            fitted_by(order, stage.mixture, self.err, quiet=self.quiet)
        return f"{stage.folder / stage.name}"

    def _choose(self, stage: Choose) -> str:
        epoch = kept(stage)
        if epoch is None:
            scores = [
                _score(self._measured(at_epoch(stage.measure, place), _run(stage.measure, number)))
                for number, place in enumerate(epochs_of(stage.folder / stage.name), start=1)
            ]
            epoch = keep(scores, stage)
        self.passes[stage.measure.agent] = epoch
        best = self._measured(stage.measure, _run(stage.measure, epoch), chosen=True)
        return f"pass {epoch}; " + self._report(replace(best, epoch=epoch))

    def _measured(self, stage: Measure, name: str, *, chosen: bool = False) -> Measured:
        """chosen: what was measured decided which model is kept, so failed questions are not tried again."""
        run = self.order.out / RUNS / re.sub(r"[^\w.-]+", "-", name)
        summary = _ended(run)
        if summary is None or (summary.failed and not chosen):
            order = self._measuring(stage, run)
            summary = asyncio.run(answered_by(order, self.tasks[stage.split], run, self.err, quiet=self.quiet))
        trajectories, rows = self._trained_on(stage)
        return Measured(stage, summary, usable(run).share, trajectories, rows)

    def _measuring(self, stage: Measure, run: Path) -> AgentLoop:
        """The options of a measurement. Workers elsewhere open the task by its name, so it is that of the split."""
        order = self._using(stage.agent, run, self.order.measure_repeats)
        test = (order.test_task, order.test_limit)
        name, limit = (order.validation, order.validation_limit) if stage.split == "validation" else test
        assert name is not None
        return replace(order, task=name, limit=limit)

    def _trained_on(self, stage: Measure) -> tuple[int | None, int | None]:
        if not stage.generation:
            return None, None
        folder = self.plan.folder(stage.generation)
        grown = _ended(folder / GROWN)
        trajectories = 0 if grown is None else grown.runs - grown.failed
        return trajectories, len(read_mixture(folder, self.plan.mixture_of(stage)))

    def _report(self, measured: Measured) -> str:
        self.found.append(measured)
        self.failed += measured.summary.failed
        images = _plots(self.found, self.order.out, self.plan.splits)
        write_section(self.order.out, "loop", "\n\n".join([tables(self.found), *images]))
        summary = measured.summary
        metric = summary.metrics[summary.primary]
        shown = "no score" if metric.mean is None else f"{summary.primary} {metric.mean:.3f}"
        return f"{shown}; {measured.usable:.0%} of the steps usable; {summary.failed} failed"


def _run(stage: Measure, epoch: int) -> str:
    return f"{stage.run}-epoch{epoch}"


def _ended(run: Path) -> Summary | None:
    """A run's results, if every question was run; some may have failed."""
    if not (run / "summary.json").exists():
        return None
    summary = read_run(run).summary()
    return summary if summary is not None and summary.finished else None


def _score(measured: Measured) -> float:
    """What is compared; no score counts as the worst."""
    mean = measured.summary.metrics[measured.summary.primary].mean
    return float("-inf") if mean is None else mean


def _plots(found: Sequence[Measured], out: Path, splits: Sequence[Split]) -> list[str]:
    """The lines of the page that show the plots; why there are none without matplotlib."""
    lines = []
    for split in splits:
        if any(each.stage.split == split for each in found):
            try:
                plot_generations(found, out / f"generations-{split}", split)
            except MissingExtra as error:
                return [f"(No plot: {error})"]
            lines.append(f"![score by generation on the {split} questions](generations-{split}.svg)")
    return lines
