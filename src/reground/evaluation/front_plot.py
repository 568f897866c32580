"""The plot of quality against tokens, seconds and USD, with the undominated runs marked. Needs the extra [eval]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reground.evaluation.costs import Cost, Measure
from reground.evaluation.plots import COLOURS, cost_axis, figure_of, save

_AXES = {"tokens": "tokens a question", "seconds": "seconds a question", "usd": "USD a question"}
_HEIGHT = 4.2
_WIDTH = 3.4
"""Inches of a panel; the legend takes as much again."""


@dataclass(frozen=True)
class Dot:
    """A run. mean, low, high: its score with its interval. undominated: by which measures of cost none dominates it."""

    label: str
    method: str
    mean: float
    low: float
    high: float
    cost: Cost
    undominated: tuple[Measure, ...]


def plot_fronts(dots: Sequence[Dot], stem: Path, measures: Sequence[Measure], *, metric: str, title: str) -> list[Path]:
    """Draw a panel for each measure of cost. Returns the files; the same dots give the same bytes.

    Undominated runs are filled, named and joined by a line, the others hollow. Raises MissingExtra without matplotlib.
    """
    methods = list(dict.fromkeys(dot.method for dot in dots))
    colours = {method: COLOURS[i % len(COLOURS)] for i, method in enumerate(methods)}
    with figure_of((_WIDTH * (len(measures) + 0.6), _HEIGHT)) as figure:
        panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        for panel, measure in zip(panels, measures, strict=True):
            _panel(panel, dots, measure, colours)
        panels[0].set_ylabel(f"{metric} (mean, 95 % interval)")
        figure.suptitle(title, fontsize=11)
        for method, colour in colours.items():
            panels[-1].plot([], [], linestyle="none", marker="o", color=colour, label=method)
        panels[-1].plot(
            [], [], linestyle="none", marker="o", color="#555555", markerfacecolor="white", label="dominated"
        )
        panels[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
        return save(figure, stem)


def _panel(axes: Any, dots: Sequence[Dot], measure: Measure, colours: dict[str, str]) -> None:
    front = sorted((dot for dot in dots if measure in dot.undominated), key=lambda dot: (_x(dot, measure), dot.mean))
    axes.plot([_x(dot, measure) for dot in front], [dot.mean for dot in front],
              drawstyle="steps-post", color="#999999", linewidth=1.2, zorder=1)  # fmt: skip
    for dot in dots:
        marked = measure in dot.undominated
        colour = colours[dot.method]
        axes.errorbar(
            [_x(dot, measure)],
            [dot.mean],
            yerr=[[dot.mean - dot.low], [dot.high - dot.mean]],
            color=colour,
            ecolor=f"{colour}59",
            marker="o",
            markerfacecolor=colour if marked else "white",
            markersize=7 if marked else 6,
            elinewidth=1,
            capsize=2,
            zorder=3 if marked else 2,
        )
        if marked:
            # There is room on the left of a rising line and above it; the first name would stand in the axis.
            place = {"xytext": (5, 5), "ha": "left"} if dot is front[0] else {"xytext": (-5, 5), "ha": "right"}
            at = (_x(dot, measure), dot.mean)
            axes.annotate(dot.label, at, textcoords="offset points", fontsize=8, **place)
    cost_axis(axes, [_x(dot, measure) for dot in dots], _AXES[measure], ticks=(1, 3))
    axes.tick_params(axis="x", labelsize=8)
    axes.margins(x=0.2)


def _x(dot: Dot, measure: Measure) -> float:
    return dot.cost.by(measure) or 0.0
