"""The page of a training: report.md from what its stages left behind, with a plot of every fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reground.core.errors import MissingExtra
from reground.evaluation.report import COLOURS, drawing
from reground.evaluation.results import write_text
from reground.training.fitting import METRICS, read_metrics

SECTIONS = "sections"
"""The folder of the stages' own parts of the page, one Markdown file each."""
_ORDER = ("collect", "warmup", "data", "fit", "ppo", "eval")
_NOT_PLOTTED = frozenset({"step", "epoch", "num_tokens", "total_flos"})


def write_section(out: Path, stage: str, text: str) -> None:
    """Keep what a stage reports (Markdown without a heading), and write the page again."""
    write_text(out / SECTIONS / f"{stage}.md", text.strip() + "\n")
    write_report(out)


def write_report(out: Path) -> None:
    """Write report.md: every stage's section in the order of the stages, then the fits."""
    stages = {file.stem: file.read_text(encoding="utf-8").strip() for file in sorted((out / SECTIONS).glob("*.md"))}
    ordered = sorted(stages, key=lambda stage: _ORDER.index(stage) if stage in _ORDER else len(_ORDER))
    parts = [f"# Training in {out.name}", *(f"## {stage.capitalize()}\n\n{stages[stage]}" for stage in ordered)]
    for file in sorted((out / "fit").glob(f"**/{METRICS}")):
        if rows := read_metrics(file):
            parts += _fit(file.parent.relative_to(out), file.parent, rows)
    write_text(out / "report.md", "\n\n".join(parts) + "\n")


def _fit(name: Path, folder: Path, rows: Sequence[Mapping[str, float]]) -> list[str]:
    goal = "reward" if any("reward" in row for row in rows) else "loss"
    curve = smoothed([row[goal] for row in rows if goal in row])
    about = f"{len(rows)} steps; smoothed {goal} {curve[0]:.4f} at first, {curve[-1]:.4f} at last."
    try:
        plot_metrics(rows, folder / "metrics.svg", title=str(name))
        plot = f"![metrics of {name}]({name}/metrics.svg)"
    except MissingExtra as error:
        plot = f"(No plot: {error})"
    return [f"## {name}", about, plot]


def smoothed(values: Sequence[float], share: float = 0.1) -> list[float]:
    """Running means over this share of the values: the trend of a noisy curve."""
    width = max(1, round(len(values) * share))
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[end] - sums[max(0, end - width)]) / min(width, end) for end in range(1, len(sums))]


def plot_metrics(rows: Sequence[Mapping[str, float]], file: Path, *, title: str) -> None:
    """Draw every recorded metric over the steps, raw and smoothed, as SVG and PNG. Raises MissingExtra."""
    names = sorted({key for row in rows for key in row} - _NOT_PLOTTED)
    columns = min(3, len(names))
    height = -(-len(names) // columns)
    with drawing(file, (3.6 * columns, 2.4 * height)) as figure:
        for place, name in enumerate(names, start=1):
            axes = figure.add_subplot(height, columns, place)
            steps, values = zip(*((row["step"], row[name]) for row in rows if name in row), strict=True)
            axes.plot(steps, values, color=COLOURS[0], alpha=0.35, linewidth=0.8)
            axes.plot(steps, smoothed(values), color=COLOURS[1], linewidth=1.6)
            axes.set_title(name.replace("_", " "), fontsize=9)
            axes.tick_params(labelsize=7)
            axes.grid(True, linewidth=0.4, alpha=0.5)
            axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(title, fontsize=11)
