"""The tables and the plot of the loop, after the paper's tables 1 to 4 and figure 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reground.core.errors import MissingExtra
from reground.evaluation.before_checks import PREFIX
from reground.evaluation.plots import COLOURS, MARKERS
from reground.evaluation.records import MetricSummary, Summary
from reground.evaluation.tables import NOTHING, interval, number
from reground.training.agent.loop import Measure, Split


@dataclass(frozen=True)
class Measured:
    """An agent's results. usable: the share of its steps with a usable sample. epoch: the pass that was kept.

    trajectories, rows: what it was trained on; None for one that was not.
    """

    stage: Measure
    summary: Summary
    usable: float
    trajectories: int | None = None
    rows: int | None = None
    epoch: int | None = None


def tables(found: Sequence[Measured]) -> str:
    """All tables, as Markdown."""
    parts = []
    for split in dict.fromkeys(each.stage.split for each in found):
        here = [each for each in found if each.stage.split == split]
        metric = here[0].summary.primary
        questions = here[0].summary.questions
        chosen = "; each fit's best pass, chosen on these questions" if split == "validation" else ""
        parts += [
            f"### {metric} on the {split} questions",
            f"{questions} questions{chosen}. Mean, with the standard deviation over repeats or else the 95 % interval.",
            _by_size(here, lambda each: _mean(each.summary.metrics[each.summary.primary])),
            f"### Steps with a usable sample on the {split} questions",
            _by_size(here, lambda each: f"{each.usable:.0%}"),
            f"### Training data and {metric} on the {split} questions",
            _data(here),
        ]
        if any(PREFIX + metric in each.summary.metrics for each in here):
            parts += [
                f"### {metric} on the {split} questions before the checks",
                "In brackets the change that the checks make.",
                _by_size(here, _before),
            ]
    return "\n\n".join(parts)


def _by_size(found: Sequence[Measured], cell: Callable[[Measured], str]) -> str:
    """A row for each kind of training data, a column for each size."""
    sizes = list(dict.fromkeys(each.stage.size for each in found))
    kinds = list(dict.fromkeys(each.stage.data for each in found))
    cells = {(each.stage.data, each.stage.size): cell(each) for each in found}
    rows = [[kind, *(cells.get((kind, size), NOTHING) for size in sizes)] for kind in kinds]
    return _table(["training data", *sizes], rows)


def _data(found: Sequence[Measured]) -> str:
    trained = [each for each in found if each.rows is not None]
    rows = [
        [
            f"{each.stage.size}, {each.stage.data}",
            str(each.trajectories),
            str(each.rows),
            NOTHING if each.epoch is None else str(each.epoch),
            _mean(each.summary.metrics[each.summary.primary]),
        ]
        for each in trained
    ]
    return _table(["model", "trajectories", "steps", "passes", found[0].summary.primary], rows)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---", *("---:" for _ in headers[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _mean(metric: MetricSummary) -> str:
    if metric.std is not None:
        return f"{number(metric.mean)} ± {number(metric.std)}"
    return f"{number(metric.mean)} ({interval(metric.low, metric.high)})" if metric.mean is not None else NOTHING


def _before(found: Measured) -> str:
    after = found.summary.metrics[found.summary.primary].mean
    before = found.summary.metrics.get(PREFIX + found.summary.primary)
    if before is None or before.mean is None or after is None:
        return NOTHING
    return f"{_mean(before)} ({number(after - before.mean, sign=True)})"


def plot_generations(found: Sequence[Measured], stem: Path, split: Split) -> list[Path]:
    """Draw each size's score over the generations, ranked data only; the teacher is a line. Raises MissingExtra."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots", "eval") from error
    here = [each for each in found if each.stage.split == split]
    with mpl.rc_context({"svg.hashsalt": "reground", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(6.0, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        sizes = dict.fromkeys(each.stage.size for each in here if each.stage.generation)
        for place, size in enumerate(sizes):
            line = [each for each in here if each.stage.size == size and _is_ranked(each.stage)]
            _draw(axes, line, size, COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)])
        teacher = next((each for each in here if each.stage.size not in sizes), None)
        if teacher is not None and (mean := teacher.summary.metrics[teacher.summary.primary].mean) is not None:
            axes.axhline(mean, color="#555555", linestyle="--", linewidth=1, label="prompted teacher")
        axes.set_xticks(sorted({each.stage.generation for each in here}))
        axes.set_xlabel("generation (0: untrained, without an example)")
        axes.set_ylabel(f"{here[0].summary.primary} (mean, 95 % interval)")
        axes.grid(True, linewidth=0.4, alpha=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
        files = [stem.with_suffix(".svg"), stem.with_suffix(".png")]
        figure.savefig(files[0], metadata={"Date": None})
        figure.savefig(files[1], dpi=160, metadata={"Software": None})
    return files


def _is_ranked(stage: Measure) -> bool:
    return stage.data in {"untrained", f"generation {stage.generation}"}


def _draw(axes: Any, line: Sequence[Measured], size: str, colour: str, marker: str) -> None:
    points = [
        (each.stage.generation, metric.mean, metric.mean - metric.low, metric.high - metric.mean)
        for each in line
        if (metric := each.summary.metrics[each.summary.primary]).mean is not None
        and metric.low is not None
        and metric.high is not None
    ]
    if points:
        x, y, below, above = zip(*points, strict=True)
        axes.errorbar(x, y, yerr=[below, above], color=colour, marker=marker, capsize=3, label=size)
