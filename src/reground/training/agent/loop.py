"""What the loop of self-improvement and distillation measures, and keeps (ReST meets ReAct, section 3.6).

The prompted agent grows the trajectories of the first generation. Every generation fits all bases, each from its own
weights again, on the steps of its trajectories; the first base's model grows the next generation, and the others are
its students. Gold answers are used to measure, never to choose a step. `app.cli.train_agent_loop` runs it.

    OUT/gen1/grown, ranking.json, data/mixture.jsonl, data/unranked.jsonl    the first generation
    OUT/gen1/NAME, NAME-unranked                                             its models
    OUT/gen2/...                                                             the second
    OUT/runs/...                                                             the runs that measure

The tables and the plot are after the paper's tables 1 to 4 and figure 4.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from reground.evaluation.report import COLOURS, MARKERS, NOTHING, interval, number
from reground.evaluation.results import MetricSummary, Summary, write_text
from reground.evaluation.runner import EARLIER
from reground.training.fitting import result
from reground.training.report import drawing
from reground.training.sft import drop_epochs, epochs_of

UNRANKED = "unranked"
"""The control: as many steps as the ranked mixture, each with a sample drawn by chance."""

Split = Literal["validation", "test"]


@dataclass(frozen=True)
class Agent:
    """A model, and how the agent uses it. model: provider/model. shots: exemplars in its prompt; None leaves all."""

    model: str
    shots: int | None = None


@dataclass(frozen=True)
class Measure:
    """A measurement. data: what the agent learnt from. size: its column in the tables. generation: 0 is untrained."""

    generation: int
    data: str
    size: str
    agent: Agent
    split: Split

    @property
    def run(self) -> str:
        """The name of its run."""
        return "-".join(f"{self.split} {self.size} {self.data}".replace(",", "").split())

    def at_epoch(self, place: Path) -> Measure:
        """The measurement of the model after one pass."""
        epoch = place.name.rpartition("-")[2]
        return replace(self, data=f"{self.data}, {epoch}", agent=replace(self.agent, model=f"hf/{place}"))


def size_of(base: str) -> str:
    """The short name of a base."""
    return Path(base).name


def keep(scores: Sequence[float], place: Path) -> int:
    """Put the model of the best pass, the earliest of equals, in the fit's place. Returns its number, from 1.

    scores: of each pass. The choice is recorded in PLACE.json before the other models go.
    """
    best = max(range(len(scores)), key=scores.__getitem__)
    write_text(_choice(place), json.dumps({"epoch": best + 1, "scores": list(scores)}, indent=1) + "\n")
    with result(place) as folder:
        shutil.copytree(epochs_of(place)[best], folder, dirs_exist_ok=True)
    drop_epochs(place)
    return best + 1


def kept(place: Path) -> int | None:
    """The number of the pass that was kept; None where none has been, or putting it in place was interrupted.

    Where some of the other models are gone, the best one is in place, and the rest go now: a choice among them would
    be another one.
    """
    if not _choice(place).exists():
        return None
    record = json.loads(_choice(place).read_text(encoding="utf-8"))
    if len(epochs_of(place)) >= len(record["scores"]):
        return None
    drop_epochs(place)
    return int(record["epoch"])


def _choice(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


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
            _table(
                ["model", "trajectories", "steps", "passes", metric],
                [_data(each) for each in here if each.rows is not None],
            ),
        ]
        if any(EARLIER + metric in each.summary.metrics for each in here):
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


def _data(measured: Measured) -> list[str]:
    """What an agent was trained on, and its score."""
    summary, stage = measured.summary, measured.stage
    passes = NOTHING if measured.epoch is None else str(measured.epoch)
    counts = [str(measured.trajectories), str(measured.rows), passes]
    return [f"{stage.size}, {stage.data}", *counts, _mean(summary.metrics[summary.primary])]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---", *("---:" for _ in headers[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _mean(metric: MetricSummary) -> str:
    if metric.std is not None:
        return f"{number(metric.mean)} ± {number(metric.std)}"
    return f"{number(metric.mean)} ({interval(metric.low, metric.high)})" if metric.mean is not None else NOTHING


def _before(found: Measured) -> str:
    after = found.summary.metrics[found.summary.primary].mean
    before = found.summary.metrics.get(EARLIER + found.summary.primary)
    if before is None or before.mean is None or after is None:
        return NOTHING
    return f"{_mean(before)} ({number(after - before.mean, sign=True)})"


def plot_generations(found: Sequence[Measured], stem: Path, split: Split) -> None:
    """Draw each size's score over the generations, ranked data only; the teacher is a line. Raises MissingExtra."""
    here = [each for each in found if each.stage.split == split]
    with drawing(stem, 6.0, 3.8) as figure:
        axes = figure.add_subplot()
        sizes = dict.fromkeys(each.stage.size for each in here if each.stage.generation)
        for place, size in enumerate(sizes):
            points = [
                (each.stage.generation, metric.mean, metric.mean - metric.low, metric.high - metric.mean)
                for each in here
                if each.stage.size == size
                and each.stage.data in {"untrained", f"generation {each.stage.generation}"}
                and (metric := each.summary.metrics[each.summary.primary]).mean is not None
                and metric.low is not None
                and metric.high is not None
            ]
            if points:
                x, y, below, above = zip(*points, strict=True)
                style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
                axes.errorbar(x, y, yerr=[below, above], capsize=3, label=size, **style)
        teacher = next((each for each in here if each.stage.size not in sizes), None)
        if teacher is not None and (mean := teacher.summary.metrics[teacher.summary.primary].mean) is not None:
            axes.axhline(mean, color="#555555", linestyle="--", linewidth=1, label="prompted teacher")
        axes.set_xticks(sorted({each.stage.generation for each in here}))
        axes.set_xlabel("generation (0: untrained, without an example)")
        axes.set_ylabel(f"{here[0].summary.primary} (mean, 95 % interval)")
        axes.legend(frameon=False, fontsize=9)
