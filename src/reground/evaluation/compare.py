"""Several methods at the same token budgets: one run folder for each method and budget, below one folder.

"For fair evaluation, we report the best results achieved by all methods under the given maximum token limitation" (RaR,
section 4.1). A method that fills the limit may do worse than with fewer tokens, so `tune` chooses each method's size on
questions that are not measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from reground.core.errors import CapabilityError, ConfigurationError, SandboxUnavailable
from reground.core.language import Value
from reground.core.programs import Sandbox
from reground.core.run import Method
from reground.evaluation.results import check_run, read_stored, write_stored
from reground.evaluation.runner import Elsewhere, EvalSettings, Progress, RunResult, configuration, evaluate
from reground.evaluation.task import Task

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)")
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


class Cell(Value):
    """One method at one budget. `tokens` is None for no budget."""

    method: str
    tokens: int | None

    @property
    def label(self) -> str:
        """The cell's folder name, e.g. rar@4k."""
        name = Path(self.method).stem if self.method.endswith(".py") else self.method
        return f"{name}@{budget_label(self.tokens)}"


@dataclass(frozen=True)
class Configured:
    """A cell's method, ready to run, and the run's settings for it. elsewhere: where it runs, if not here.

    expected: the tokens of a question, by a dry run, where its size is one of several to try.
    """

    method: Method
    settings: EvalSettings
    elsewhere: Elsewhere | None = None
    expected: int = 0


class Refusal(Value):
    """A cell that cannot run here, with the reason: no log-probabilities, no sandbox or no documents."""

    cell: Cell
    why: str


class Plan(Value):
    """compare.json: what a comparison consists of."""

    format: Literal[1] = 1
    task: str
    baseline: str
    cells: tuple[Cell, ...]
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class CompareResult:
    """The finished cells' runs, and the cells that could not be run."""

    runs: dict[str, RunResult] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)


CellObserver = Callable[[int, Progress], None]
PLAN, FOLDER, CHOICES = "compare.json", "tuning", "tuning.json"
OWN = 0
"""The index of the method's own size among a cell's candidates; the limit ends it where it does not fit."""


def parse_budgets(text: str) -> list[int | None]:
    """Read "1k,2k,500,none"; k is a thousand tokens, m a million. Raises ConfigurationError."""
    budgets: list[int | None] = []
    for part in text.lower().split(","):
        word = part.strip()
        found = _BUDGET.fullmatch(word)
        tokens = round(float(found.group(1)) * _UNITS[found.group(2)]) if found else None
        if (found is None and word != "none") or tokens == 0:
            raise ConfigurationError(f"a budget is a number of tokens such as 4k, 2000 or none, not {part.strip()!r}")
        if tokens not in budgets:
            budgets.append(tokens)
    return budgets


def budget_label(tokens: int | None) -> str:
    """4000 as 4k, 1500 as 1.5k, None as none."""
    if tokens is None:
        return "none"
    for unit, size in (("m", 1_000_000), ("k", 1_000)):
        if tokens >= size and tokens % (size // 10) == 0:
            return f"{tokens / size:g}{unit}"
    return str(tokens)


def cells_of(methods: Sequence[str], budgets: Sequence[int | None]) -> list[Cell]:
    """Every method at every budget, small budgets first, so that an interrupted run has whole comparisons.

    Raises ConfigurationError for two methods that would have one folder, as rag and my/rag.py.
    """
    ordered = sorted(budgets, key=lambda tokens: float("inf") if tokens is None else tokens)
    cells = [Cell(method=method, tokens=tokens) for tokens in ordered for method in dict.fromkeys(methods)]
    named: dict[str, str] = {}
    for cell in cells:
        if (other := named.setdefault(cell.label, cell.method)) != cell.method:
            raise ConfigurationError(f"{other} and {cell.method} would have the same folder: rename one of the files")
    return cells


def read_plan(path: Path) -> Plan | None:
    """The comparison in a folder, or None. Raises DataError if compare.json is broken."""
    return read_stored(path / PLAN, Plan)


async def compare(
    task: Task,
    cells: Mapping[Cell, Configured],
    out: Path,
    *,
    baseline: str | None,
    sandbox: Sandbox | None = None,
    observer: CellObserver | None = None,
) -> CompareResult:
    """Run every cell, or resume the unfinished ones. baseline: None for a single cell, whose folder is `out` itself.

    Raises ConfigurationError before anything is run if a cell's folder contains another run. A cell of several that
    cannot run (CapabilityError, SandboxUnavailable) is refused with the reason, and the others continue.
    """
    result = CompareResult()
    folders = {cell: out if baseline is None else out / cell.label for cell in cells}
    for cell, ready in cells.items():
        check_run(folders[cell], configuration(task, ready.settings))
    if baseline is not None:
        _write_plan(out, task, [*cells], baseline, result.refused)
    for index, (cell, ready) in enumerate(cells.items()):
        watch = None if observer is None else partial(observer, index)
        try:
            result.runs[cell.label] = await _run(task, ready, folders[cell], sandbox, watch)
        except (CapabilityError, SandboxUnavailable) as error:
            if baseline is None:
                raise
            result.refused.append(Refusal(cell=cell, why=str(error)))
            _write_plan(out, task, [*cells], baseline, result.refused)
    return result


async def _run(
    task: Task, ready: Configured, out: Path, sandbox: Sandbox | None, observer: Callable[[Progress], None] | None
) -> RunResult:
    method, settings, elsewhere = ready.method, ready.settings, ready.elsewhere
    return await evaluate(task, method, settings, out, sandbox=sandbox, observer=observer, elsewhere=elsewhere)


def _write_plan(out: Path, task: Task, cells: Sequence[Cell], baseline: str, refused: Sequence[Refusal]) -> None:
    """Write the plan, and keep the cells of earlier commands, because methods and budgets may be added later."""
    out.mkdir(parents=True, exist_ok=True)
    before = read_plan(out)
    if before is not None and before.task != task.name:
        raise ConfigurationError(f"{out} compares methods on {before.task}, not on {task.name}: choose another --out")
    before = before or Plan(task=task.name, baseline=baseline, cells=())
    plan = Plan(
        task=task.name,
        baseline=baseline,
        cells=tuple(dict.fromkeys([*before.cells, *cells])),
        refused=(*(each for each in before.refused if each.cell not in cells), *refused),
    )
    write_stored(out / PLAN, plan)


class Trial(Value):
    """One configuration's score on the tuning questions. tokens: the mean per question."""

    settings: dict[str, JsonValue]
    mean: float | None
    tokens: float
    failed: int


class Choice(Value):
    """All trials of one cell. chosen: the index of the trial to measure."""

    cell: Cell
    questions: int
    trials: tuple[Trial, ...]
    chosen: int = Field(ge=0)

    @model_validator(mode="after")
    def _chosen_was_tried(self) -> Choice:
        if self.chosen >= len(self.trials):
            raise ValueError("the trial that was chosen is not among those tried")
        return self

    def describe(self) -> str:
        """One line with the chosen size, the number of sizes, and their scores."""
        best, first = self.trials[self.chosen].settings, self.trials[0].settings
        varied = [key for key in first if any(trial.settings.get(key) != first[key] for trial in self.trials)]
        size = ", ".join(f"{key}={best[key]}" for key in varied)
        scores = ", ".join("-" if trial.mean is None else f"{trial.mean:.3f}" for trial in self.trials)
        return (
            f"{self.cell.label} has {size}: the best of {len(self.trials)} sizes on {self.questions} other questions "
            f"({scores})."
        )


class Tuning(Value):
    """tuning.json: the choices and their trials."""

    task: str
    choices: tuple[Choice, ...]


def planned(costs: Sequence[int], limit: int | None) -> list[int]:
    """Which of a method's sizes to try, smallest first: those that are expected to stay under the limit, and always the
    smallest and the method's own. A method without other sizes is not tried.

    costs: the tokens of a question in each size, the method's own first.
    """
    order = sorted(range(len(costs)), key=lambda index: costs[index])
    fit = [index for index in order if index in (OWN, order[0]) or limit is None or costs[index] <= limit]
    return fit if len(costs) > 1 else []


async def tune(
    task: Task,
    candidates: Mapping[Cell, Mapping[int, Configured]],
    out: Path,
    *,
    questions: int,
    sandbox: Sandbox | None = None,
    observer: Callable[[Cell, int, Progress], None] | None = None,
) -> dict[Cell, int]:
    """Run candidates on `questions` questions of the task. Returns each cell's index of the best one.

    Candidates: the sizes to try of each cell's method, by their index. The best has the highest mean of the primary
    metric, and among equals the fewest tokens. Every run is durable, below `out`/tuning. Trials and choices are written
    to tuning.json.
    """
    best = dict.fromkeys(candidates, OWN)
    choices: list[Choice] = []
    for cell, several in candidates.items():
        trials = []
        try:
            for index, ready in several.items():
                ready = replace(ready, settings=replace(ready.settings, ids="", limit=questions, repeats=1))
                watch = None if observer is None else partial(observer, cell, index)
                run = await _run(task, ready, out / FOLDER / cell.label / str(index), sandbox, watch)
                mean, tokens = run.summary.metrics[run.summary.primary].bound, run.summary.cost.tokens
                trial = Trial(settings=run.config.settings, mean=mean, tokens=tokens, failed=run.summary.failed)
                trials.append(trial)
        except (CapabilityError, SandboxUnavailable):
            continue  # the comparison refuses the cell with the reason
        if trials:
            chosen = max(range(len(trials)), key=lambda i: (trials[i].mean or 0.0, -trials[i].tokens))
            best[cell] = list(several)[chosen]
            choices.append(Choice(cell=cell, questions=questions, trials=tuple(trials), chosen=chosen))
    if choices:
        before = read_tuning(out)
        kept = [] if before is None else [each for each in before.choices if each.cell not in candidates]
        write_stored(out / CHOICES, Tuning(task=task.name, choices=(*kept, *choices)))
    return best


def read_tuning(out: Path) -> Tuning | None:
    """The choices for the comparison in a folder, if it was tuned. Raises DataError if tuning.json is broken."""
    return read_stored(out / CHOICES, Tuning)
