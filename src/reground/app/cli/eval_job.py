"""The job of `eval` and `compare`: the order with what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reground.app.options_evaluation import Measuring
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings

DEFAULT_LIMIT = 100


@dataclass(frozen=True)
class Job:
    """An evaluation to run. baseline: None if a single method is evaluated."""

    order: Measuring
    cells: list[Cell]
    out: Path
    baseline: str | None = None
    quiet: bool = False
    tune: int = 0
    tune_task: str | None = None

    @property
    def methods(self) -> list[str]:
        """The methods of all cells, without duplicates."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def base(self) -> EvalSettings:
        """The settings that the runs of all cells share."""
        from reground.app.signature import field_names
        from reground.evaluation.questions import Questions
        from reground.evaluation.runner import EvalSettings

        order = self.order
        all_of_them = order.ids or order.questions is not None
        limit = order.limit if order.limit is not None or all_of_them else DEFAULT_LIMIT
        taken = {name: getattr(order, name) for name in field_names(Questions)}
        return EvalSettings(self.methods[0], order.model, **{**taken, "limit": limit or None})


def slug(*names: str) -> str:
    """Join names into a folder's name."""
    return "-".join("".join(c if c.isalnum() or c in "@._" else "-" for c in name).strip("-") for name in names)
