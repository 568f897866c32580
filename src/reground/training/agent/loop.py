"""The loop of self-improvement and distillation as a list of stages (ReST meets ReAct, section 3.6).

The prompted agent grows the trajectories of the first generation. Every generation fits all bases, each from its own
weights again, on the steps of its trajectories; the first base's model grows the next generation, and the others are
its students. Gold answers are used to measure, never to choose a step.

    OUT/gen1/grown, ranking.json, data/mixture.jsonl, data/unranked.jsonl    the first generation
    OUT/gen1/NAME, NAME-unranked                                             its models
    OUT/gen2/...                                                             the second
    OUT/runs/...                                                             the runs that measure
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from reground.core.errors import ConfigurationError, MissingExtra
from reground.evaluation.report import COLOURS, MARKERS, NOTHING, interval, number
from reground.evaluation.results import MetricSummary, Summary, write_text
from reground.evaluation.runner import EARLIER
from reground.training.agent.mixture import By
from reground.training.agent.rank import MIXTURE
from reground.training.fitting import result
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
class Grow:
    """Collect trajectories: `repeats` a question."""

    folder: Path
    agent: Agent
    repeats: int


@dataclass(frozen=True)
class Rank:
    """Rank the samples of each step."""

    folder: Path


@dataclass(frozen=True)
class Mix:
    """Make data/`name`.jsonl. like: the mixture whose number of rows it may not exceed."""

    folder: Path
    name: str
    by: By
    like: str | None = None


@dataclass(frozen=True)
class Fit:
    """Fine-tune `base` on a mixture; the result is folder/name."""

    folder: Path
    mixture: str
    base: str
    name: str


@dataclass(frozen=True)
class Measure:
    """Measure an agent. data: what it was trained on. size: its column in the tables. generation: 0 is untrained."""

    generation: int
    data: str
    size: str
    agent: Agent
    split: Split

    @property
    def run(self) -> str:
        """The name of its run."""
        return "-".join(f"{self.split} {self.size} {self.data}".replace(",", "").split())


@dataclass(frozen=True)
class Choose:
    """Measure a fit's model after each pass over the data, and keep the best of them as folder/name."""

    folder: Path
    name: str
    measure: Measure


Stage = Grow | Rank | Mix | Fit | Choose | Measure


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the loop does.

    out: its folder. teacher: the model that is prompted at first. bases: the weights to fit; the first is the agent
    that goes on, the others are students. repeats: trajectories a question from the second generation on, as in the
    paper; the first has one. ranked: rank, else take the lowest perplexity. validated: choose among the passes of each
    fit. tested: measure on test questions too. control: fit the last base on unranked steps too. untrained: measure
    the bases before training, without an exemplar and with one.
    """

    out: Path
    teacher: str
    bases: Sequence[str]
    generations: int = 2
    repeats: int = 1
    ranked: bool = True
    validated: bool = True
    tested: bool = True
    control: bool = True
    untrained: bool = True

    def __post_init__(self) -> None:
        if not self.bases or not all(self.bases):
            raise ConfigurationError("name at least one base to fit, as in --bases smollm2")
        if len(set(map(size_of, self.bases))) < len(self.bases):
            raise ConfigurationError(f"two bases have the same name: {', '.join(self.bases)}")
        if not (self.validated or self.tested):
            raise ConfigurationError("nothing would be measured: give --validation or --test-task")

    @property
    def splits(self) -> tuple[Split, ...]:
        """The kinds of questions on which every agent is measured."""
        return (*(("validation",) if self.validated else ()), *(("test",) if self.tested else ()))

    def folder(self, generation: int) -> Path:
        """The folder of a generation, from 1."""
        return self.out / f"gen{generation}"

    def mixture_of(self, stage: Measure) -> str:
        """The mixture on which a measured agent was trained."""
        return UNRANKED if stage.data.endswith(UNRANKED) else MIXTURE

    def stages(self) -> Iterator[Stage]:
        """All stages, in order."""
        prompted = Agent(self.teacher)
        yield from self._measured(0, "prompted", "teacher", prompted)
        for base in self.bases if self.untrained else ():
            for shots, data in ((0, "untrained"), (1, "untrained, one example")):
                yield from self._measured(0, data, size_of(base), Agent(f"hf/{base}", shots))
        grower = prompted
        for generation in range(1, self.generations + 1):
            yield from self._generation(generation, grower)
            grower = self._fitted(generation, size_of(self.bases[0]))

    def _generation(self, number: int, grower: Agent) -> Iterator[Stage]:
        folder = self.folder(number)
        yield Grow(folder, grower, self.repeats if number > 1 else 1)
        if self.ranked:
            yield Rank(folder)
        yield Mix(folder, MIXTURE, "ranking" if self.ranked else "perplexity")
        learners = [(base, MIXTURE, size_of(base)) for base in self.bases]
        if self.control:
            yield Mix(folder, UNRANKED, "chance", like=MIXTURE)
            learners.append((self.bases[-1], UNRANKED, f"{size_of(self.bases[-1])}-{UNRANKED}"))
        for base, mixture, name in learners:
            yield Fit(folder, mixture, base, name)
            data = f"generation {number}" + (f", {UNRANKED}" if mixture == UNRANKED else "")
            for measure in self._measured(number, data, size_of(base), self._fitted(number, name)):
                yield Choose(folder, name, measure) if measure.split == "validation" else measure

    def _fitted(self, generation: int, name: str) -> Agent:
        return Agent(f"hf/{self.folder(generation) / name}", 0)

    def _measured(self, generation: int, data: str, size: str, agent: Agent) -> Iterator[Measure]:
        for split in self.splits:
            yield Measure(generation, data, size, agent, split)


def size_of(base: str) -> str:
    """The short name of a base."""
    return Path(base).name


def described(stage: Stage) -> str:
    """One line that says what a stage does."""
    match stage:
        case Grow(folder, agent, repeats):
            return f"{folder.name}: grow with {agent.model}, {repeats} a question"
        case Rank(folder):
            return f"{folder.name}: rank the samples of each step"
        case Mix(folder, name, by, _):
            return f"{folder.name}: make the data {name}, by {by}"
        case Fit(folder, mixture, base, name):
            return f"{folder.name}: fit {base} on {mixture} as {name}"
        case Choose(folder, name, _):
            return f"{folder.name}: choose the pass of {name} on the validation questions"
        case Measure(_, data, size, _, split):
            return f"measure {size} ({data}) on the {split} questions"


def at_epoch(stage: Measure, place: Path) -> Measure:
    """The measurement of the model after one pass."""
    epoch = place.name.rpartition("-")[2]
    return replace(stage, data=f"{stage.data}, {epoch}", agent=replace(stage.agent, model=f"hf/{place}"))


def keep(scores: Sequence[float], stage: Choose) -> int:
    """Put the model of the best pass, the earliest of equals, in the fit's place. Returns its number, from 1.

    scores: of each pass. The choice is recorded in folder/name.json before the other models go.
    """
    best = max(range(len(scores)), key=scores.__getitem__)
    record = {"epoch": best + 1, "scores": list(scores)}
    write_text(stage.folder / f"{stage.name}.json", json.dumps(record, indent=1) + "\n")
    with result(stage.folder / stage.name) as folder:
        shutil.copytree(epochs_of(stage.folder / stage.name)[best], folder, dirs_exist_ok=True)
    drop_epochs(stage.folder / stage.name)
    return best + 1


def kept(stage: Choose) -> int | None:
    """The number of the pass that was kept; None where none has been, or putting it in place was interrupted.

    Where some of the other models are gone, the best one is in place, and the rest go now: a choice among them would
    be another one.
    """
    file = stage.folder / f"{stage.name}.json"
    if not file.exists():
        return None
    record = json.loads(file.read_text(encoding="utf-8"))
    if len(epochs_of(stage.folder / stage.name)) >= len(record["scores"]):
        return None
    drop_epochs(stage.folder / stage.name)
    return int(record["epoch"])


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
    before = found.summary.metrics.get(EARLIER + found.summary.primary)
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
