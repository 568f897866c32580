"""A method's best configuration under a budget, chosen on questions that are never measured.

"For fair evaluation, we report the best results achieved by all methods under the given maximum token limitation" (RaR,
section 4.1). A method that fills the limit may do worse than with fewer tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from reground.core.errors import CapabilityError, SandboxUnavailable
from reground.core.language import Value
from reground.core.programs import Sandbox
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.results import read_stored, write_text
from reground.evaluation.runner import Progress, RunResult, evaluate
from reground.evaluation.task import Task

FOLDER = "tuning"
CHOICES = "tuning.json"
OWN = 0
"""The index of the method's own size among a cell's candidates; the limit ends it where it does not fit."""


@dataclass(frozen=True)
class Candidate:
    """One size of a cell's method. expected: the tokens of a question, by a dry run."""

    configured: Configured
    expected: int


class Trial(Value):
    """One configuration's score on the tuning questions. tokens: the mean per question."""

    settings: dict[str, JsonValue]
    mean: float | None
    tokens: float
    failed: int

    @classmethod
    def of(cls, run: RunResult) -> Trial:
        """The trial that a run on the tuning questions is."""
        summary = run.summary
        return cls(
            settings=run.config.settings,
            mean=summary.metrics[summary.primary].bound,
            tokens=summary.cost.tokens,
            failed=summary.failed,
        )


class Choice(Value):
    """All trials of one cell. chosen: the index of the trial to measure."""

    cell: Cell
    questions: int
    trials: tuple[Trial, ...]
    chosen: int

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


def planned(cell: Cell, several: Sequence[Candidate], used: float = 1.0, tried: Sequence[int] = ()) -> list[int]:
    """The sizes to try, smallest first: those that are expected to stay under the cell's limit, and always the smallest
    and the method's own.

    used: the share of what the dry run expects that a question really uses. tried: the sizes that were tried, in order.
    """
    limit = math.inf if cell.tokens is None else cell.tokens
    order = sorted(range(len(several)), key=lambda index: several[index].expected)
    fit = [index for index in order if index in (OWN, order[0]) or used * several[index].expected <= limit]
    return [*tried, *(index for index in fit if index not in tried)]


async def tune(
    task: Task,
    candidates: Mapping[Cell, Sequence[Candidate]],
    out: Path,
    *,
    questions: int,
    sandbox: Sandbox | None = None,
    observer: Callable[[Cell, int, Progress], None] | None = None,
    on_plan: Callable[[Cell, Sequence[int]], None] = lambda cell, sizes: None,
) -> dict[Cell, int]:
    """Run candidates on `questions` questions of the task. Returns each cell's index of the best one.

    Candidates: the method's own size, and then the others. The smallest is run first; what the sizes used corrects the
    dry run's estimates, and those that are not expected to stay under the limit are left out. The best has the highest
    mean of the primary metric, and among equals the fewest tokens. Every run is durable, below `out`/tuning. Trials and
    choices are written to tuning.json. A cell with one candidate is not run. on_plan: told, when it changes, which
    sizes of a cell are tried or will be.
    """
    best: dict[Cell, int] = {}
    choices: list[Choice] = []
    for cell, several in candidates.items():
        order = planned(cell, several)
        best[cell] = order[0]
        if len(several) == 1:
            continue
        trials: list[Trial] = []
        used = 0.0
        try:
            while len(trials) < len(order):
                on_plan(cell, order)
                index = order[len(trials)]
                ready = several[index].configured
                run = await evaluate(
                    task,
                    ready.method,
                    replace(ready.settings, ids="", limit=questions, repeats=1),
                    out / FOLDER / cell.label / str(index),
                    sandbox=sandbox,
                    observer=None if observer is None else partial(observer, cell, index),
                    elsewhere=ready.elsewhere,
                )
                trials.append(Trial.of(run))
                used = max(used, trials[-1].tokens / max(1, several[index].expected))  # a limit may have ended it
                order = planned(cell, several, used, order[: len(trials)])
        except (CapabilityError, SandboxUnavailable):
            on_plan(cell, order[: len(trials)])
            continue  # the comparison refuses the cell with the reason
        on_plan(cell, order)
        chosen = max(range(len(trials)), key=lambda i: (trials[i].mean or 0.0, -trials[i].tokens))
        best[cell] = order[chosen]
        choices.append(Choice(cell=cell, questions=questions, trials=tuple(trials), chosen=chosen))
    if choices:
        before = read_tuning(out)
        kept = [] if before is None else [each for each in before.choices if each.cell not in candidates]
        write_text(out / CHOICES, Tuning(task=task.name, choices=(*kept, *choices)).model_dump_json(indent=2) + "\n")
    return best


def read_tuning(out: Path) -> Tuning | None:
    """The choices for the comparison in a folder, if it was tuned. Raises DataError if tuning.json is broken."""
    return read_stored(out / CHOICES, Tuning)
