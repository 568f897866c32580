"""Several methods at the same token budgets: one run folder for each method and budget, below one folder.

"For fair evaluation, we report the best results achieved by all methods under the given maximum token limitation" (RaR,
section 4.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from reground.core.errors import CapabilityError, ConfigurationError, SandboxUnavailable
from reground.core.language import Value
from reground.core.programs import Sandbox
from reground.core.run import Method
from reground.evaluation.results import check_run, read_stored, write_stored
from reground.evaluation.runner import Elsewhere, EvalSettings, Progress, RunResult, configuration, evaluate
from reground.evaluation.task import Task

_BUDGET = re.compile(r"(\d{1,12}+(?:\.\d{1,12}+)?)\s*([km]?)")
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
    """A cell's method, ready to run, and the run's settings for it. elsewhere: where it runs, if not here."""

    method: Method
    settings: EvalSettings
    elsewhere: Elsewhere | None = None


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
PLAN = "compare.json"


def parse_budgets(text: str) -> list[int | None]:
    """Read "1k,2k,500,none"; k is a thousand tokens, m a million. Raises ConfigurationError."""
    budgets: list[int | None] = []
    for part in text.lower().split(","):
        word = part.strip()
        match = _BUDGET.fullmatch(word)
        tokens = round(float(match.group(1)) * _UNITS[match.group(2)]) if match else None
        if (match is None and word != "none") or tokens == 0:
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
    by_label: dict[str, str] = {}
    for cell in cells:
        if (other := by_label.setdefault(cell.label, cell.method)) != cell.method:
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
            result.runs[cell.label] = await evaluate(
                task,
                ready.method,
                ready.settings,
                folders[cell],
                sandbox=sandbox,
                observer=watch,
                elsewhere=ready.elsewhere,
            )
        except (CapabilityError, SandboxUnavailable) as error:
            if baseline is None:
                raise
            result.refused.append(Refusal(cell=cell, why=str(error)))
            _write_plan(out, task, [*cells], baseline, result.refused)
    return result


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
