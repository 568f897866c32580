"""What the loop of self-improvement and distillation measures, and keeps (ReST meets ReAct, section 3.6).

The prompted agent grows the trajectories of the first generation. Every generation fits all bases, each from its own
weights again, on the steps of its trajectories; the first base's model grows the next generation, and the others are
its students. Gold answers are used to measure, never to choose a step. `app.cli.train_agent` runs it.

    OUT/gen1/grown, ranking.json, data/mixture.jsonl, data/unranked.jsonl    the first generation
    OUT/gen1/NAME, NAME-unranked                                             its models
    OUT/gen2/...                                                             the second
    OUT/runs/...                                                             the runs that measure

The tables are after the paper's tables 1 to 4.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reground.evaluation.report import NOTHING, Table, interval, number
from reground.evaluation.results import MetricSummary, Summary, write_text
from reground.evaluation.runner import EARLIER
from reground.training.fitting import result
from reground.training.sft import drop_epochs, epochs_of

UNRANKED = "unranked"
"""The control: as many steps as the ranked mixture, each with a sample drawn by chance."""

Split = Literal["validation", "test"]


@dataclass(frozen=True)
class Agent:
    """An agent that is measured. model: provider/model. data: what it learnt from. size: its base's short name.

    generation: 0 is untrained. shots: exemplars in its prompt; None, for the prompted agent, leaves all.
    """

    model: str
    data: str = "prompted"
    size: str = "teacher"
    generation: int = 0
    shots: int | None = None


@dataclass(frozen=True)
class Measured:
    """An agent's results. usable: the share of its steps with a usable sample. epoch: the pass that was kept.

    trajectories, rows: what it was trained on; None for one that was not.
    """

    agent: Agent
    split: Split
    summary: Summary
    usable: float
    trajectories: int | None = None
    rows: int | None = None
    epoch: int | None = None

    @property
    def metric(self) -> MetricSummary:
        """The primary metric."""
        return self.summary.metrics[self.summary.primary]


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


def tables(results: Sequence[Measured]) -> str:
    """A table for each split, as Markdown: an agent a line, with what it was trained on and what it scores."""
    parts = []
    for split in dict.fromkeys(each.split for each in results):
        here = [each for each in results if each.split == split]
        metric = here[0].summary.primary
        headers = ["model", "trajectories", "steps", "passes", metric, "before the checks", "usable steps"]
        chosen = "; each fit's best pass, chosen on these questions" if split == "validation" else ""
        table = Table(f"{metric} on the {split} questions", headers, [_line(each) for each in here], words=1)
        parts += [
            f"#{table.markdown()}",
            f"{here[0].summary.questions} questions{chosen}. Mean, with the standard deviation over repeats or else "
            "the 95 % interval.",
        ]
    return "\n\n".join(parts)


def _line(measured: Measured) -> list[str]:
    counts = (measured.trajectories, measured.rows, measured.epoch)
    return [
        f"{measured.agent.size}, {measured.agent.data}",
        *(NOTHING if count is None else str(count) for count in counts),
        _mean(measured.metric),
        _mean(measured.summary.metrics.get(EARLIER + measured.summary.primary)),
        f"{measured.usable:.0%}",
    ]


def _mean(metric: MetricSummary | None) -> str:
    if metric is None or metric.mean is None:
        return NOTHING
    spread = f"({interval(metric.low, metric.high)})" if metric.std is None else f"± {number(metric.std)}"
    return f"{number(metric.mean)} {spread}"
