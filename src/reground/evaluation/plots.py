"""Plots of accuracy against cost, as PNG and as SVG. Needs the extra [eval]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reground.core.errors import MissingExtra

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinct for any colour vision (Okabe & Ito 2008, without yellow, which is faint on white)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")


@dataclass(frozen=True)
class Point:
    """One run: the mean cost per question, and the mean score with its interval."""

    method: str
    model: str
    tokens: float
    usd: float | None
    mean: float
    low: float
    high: float


def plot(
    points: Sequence[Point],
    stem: Path,
    *,
    x: Literal["tokens", "usd"],
    by: Literal["method", "model"],
    metric: str,
    title: str,
) -> list[Path]:
    """Draw the points. by: what the colour shows; the marker shows the other. Returns the files.

    The same points give the same bytes. Raises MissingExtra without matplotlib.
    """
    with figure_of((7.2, 4.4)) as figure:
        axes = figure.add_subplot()
        _draw(axes, points, x, by)
        _dress(axes, points, x, metric, title)
        return save(figure, stem)


@contextmanager
def figure_of(size: tuple[float, float]) -> Iterator[Any]:
    """An empty figure of this width and height in inches. Raises MissingExtra without matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots", "eval") from error

    with mpl.rc_context({"svg.hashsalt": "reground", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def save(figure: Any, stem: Path) -> list[Path]:
    """Write a figure as SVG and as PNG, without dates. Returns the files."""
    files = [stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")]
    figure.savefig(files[0], metadata={"Date": None})
    figure.savefig(files[1], dpi=160, metadata={"Software": None})
    return files


def _draw(axes: Any, points: Sequence[Point], x: str, by: str) -> None:
    other = "model" if by == "method" else "method"
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(_names(points, by))}
    dashes = {name: "-" if i < len(COLOURS) else "--" for i, name in enumerate(colours)}
    markers = {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(_names(points, other))}
    alone = len(markers) == 1
    if alone:
        own = {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(colours)}
    for name, colour in colours.items():
        for second, marker in markers.items():
            line = sorted(
                (p for p in points if getattr(p, by) == name and getattr(p, other) == second),
                key=lambda p: _cost(p, x),
            )
            if not line:
                continue
            axes.errorbar(
                [_cost(p, x) for p in line],
                [p.mean for p in line],
                yerr=[[p.mean - p.low for p in line], [p.high - p.mean for p in line]],
                color=colour,
                ecolor=f"{colour}73",
                linestyle=dashes[name],
                marker=own[name] if alone else marker,
                label=name if alone else f"{name}, {second}",
                linewidth=1.4,
                markersize=6,
                elinewidth=1,
                capsize=3,
            )


def _dress(axes: Any, points: Sequence[Point], x: str, metric: str, title: str) -> None:
    what = "tokens a question (prompt + completion)" if x == "tokens" else "USD a question"
    cost_axis(axes, [_cost(p, x) for p in points], what)
    axes.set_ylabel(f"{metric} (mean, 95 % interval)")
    axes.set_title(title, fontsize=11)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)


def cost_axis(axes: Any, costs: Sequence[float], what: str, *, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """Set up the x axis for costs, and the grid.

    Where costs differ much the axis is logarithmic, with a tick at the multiples `ticks` of each power of ten.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if min(costs) > 0 and max(costs) / min(costs) > 3:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(base=10, subs=ticks))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel(what)
    axes.grid(True, linewidth=0.4, alpha=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _cost(point: Point, x: str) -> float:
    return point.tokens if x == "tokens" else point.usd or 0.0


def _names(points: Sequence[Point], field: str) -> list[str]:
    return sorted({getattr(point, field) for point in points})
