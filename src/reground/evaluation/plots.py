"""The plot of scores against cost, as PNG and as SVG. Needs the extra [eval]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reground.core.errors import MissingExtra

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinct for any colour vision (Okabe & Ito 2008, without yellow, which is faint on white)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")


@dataclass(frozen=True)
class Point:
    """One run: the mean tokens of a question, and the mean score with its interval."""

    method: str
    model: str
    tokens: float
    mean: float
    low: float
    high: float


def plot(points: Sequence[Point], stem: Path, *, metric: str, title: str) -> list[Path]:
    """Draw scores against tokens: a line for each method and model, and a marker for each model.

    Returns the files. The same points give the same bytes. Raises MissingExtra without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots", "eval") from error

    with mpl.rc_context({"svg.hashsalt": "reground", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _draw_lines(axes, points)
        _set_axes(axes, [point.tokens for point in points])
        axes.set_ylabel(f"{metric} (mean, 95 % interval)")
        axes.set_title(title, fontsize=11)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
        files = [stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")]
        figure.savefig(files[0], metadata={"Date": None})
        figure.savefig(files[1], dpi=160, metadata={"Software": None})
    return files


def _draw_lines(axes: Any, points: Sequence[Point]) -> None:
    methods, models = sorted({point.method for point in points}), sorted({point.model for point in points})
    for i, method in enumerate(methods):
        for j, model in enumerate(models):
            line = sorted(
                (point for point in points if (point.method, point.model) == (method, model)),
                key=lambda point: point.tokens,
            )
            if not line:
                continue
            axes.errorbar(
                [point.tokens for point in line],
                [point.mean for point in line],
                yerr=[[point.mean - point.low for point in line], [point.high - point.mean for point in line]],
                color=COLOURS[i % len(COLOURS)],
                ecolor=f"{COLOURS[i % len(COLOURS)]}73",
                linestyle="-" if i < len(COLOURS) else "--",
                marker=MARKERS[(j if len(models) > 1 else i) % len(MARKERS)],
                label=f"{method}, {model}" if len(models) > 1 else method,
                linewidth=1.4,
                markersize=6,
                elinewidth=1,
                capsize=3,
            )


def _set_axes(axes: Any, tokens: Sequence[float]) -> None:
    """Set up the x axis, which is logarithmic where costs differ much, and the grid."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if min(tokens) > 0 and max(tokens) / min(tokens) > 3:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("tokens a question (prompt + completion)")
    axes.grid(True, linewidth=0.4, alpha=0.5)
    axes.spines[["top", "right"]].set_visible(False)
