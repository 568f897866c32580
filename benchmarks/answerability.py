"""Which limits let words and a model together say when passages do not hold an answer, and how often they are right.

Each run is a folder of `reground eval` or a cell of `compare` with `--method grounded --set max_rounds=0 --set
abstain=true`, over a task or over its twin with `_unanswerable`. Its questions are those whose passages show the words
of the answer, or those whose gold passages were hidden. From the questions of training runs that have a name the two
limits of `by_words` are fitted: the pair with which most of the unanswerable ones end without an answer, while of the
others no larger share does than `--wrong`. Other runs say what these limits are worth.

    python -m benchmarks.answerability --fit RUN,RUN... [--measure RUN,RUN...] [--limits 0.15,0.25] [--wrong 0.1]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from reground.core.answers import abstains
from reground.core.trajectory import GenerateStep
from reground.evaluation.records import RunConfig
from reground.evaluation.statistics import bootstrap_interval
from reground.evaluation.tasks._retrieved import retrieve_steps, retrieved_passages
from reground.methods.grounded.answerability import FEWEST, MOST, lacking
from reground.training.runs import scored

HIDDEN = "_unanswerable"
STEPS = 20
"""Limits tried between 0 and 1."""


@dataclass(frozen=True)
class Asked:
    """A question. answerable: whether its passages show the answer. silent: whether the model abstained.

    lacking: as the function of that name.
    """

    answerable: bool
    lacking: float | None
    silent: bool

    def ends(self, fewest: float, most: float) -> bool:
        """Whether it ends without an answer under these limits."""
        if self.lacking is None:
            return self.silent
        return self.lacking > most or (self.silent and self.lacking >= fewest)


def read(folder: Path) -> Iterator[Asked]:
    """The questions of a run that are clear: gold passages hidden, or the answer's words shown."""
    config = RunConfig.model_validate_json((folder / "config.json").read_bytes())
    hidden = config.task.endswith(HIDDEN)
    for record, trajectory in scored(folder):
        said = [step for step in trajectory.steps if isinstance(step, GenerateStep)]
        if said and (hidden or record.value("hit") == 1):
            passages = retrieved_passages(retrieve_steps(trajectory))
            share = lacking(trajectory.question, (f"{passage.title} {passage.text}" for passage in passages))
            yield Asked(not hidden, share, abstains(said[-1].replies[0].text))


def fitted(asked: Sequence[Asked], wrong: float) -> tuple[float, float]:
    """The two limits; of equally good ones the pair that leaves the model most to say."""
    grid = [step / STEPS for step in range(STEPS + 1)]
    allowed = wrong * sum(each.answerable for each in asked)

    def worth(limits: tuple[float, float]) -> tuple[float, float]:
        ended = [each.answerable for each in asked if each.ends(*limits)]
        over = max(0.0, ended.count(True) - allowed)
        return -over if over else ended.count(False), limits[1] - limits[0]

    return max(combinations(grid, 2), key=worth)


def row(name: str, asked: Sequence[Asked], ends: Iterable[bool]) -> str:
    """How many of either kind end without an answer, with intervals."""
    cells = []
    ended = list(ends)
    for answerable in (False, True):
        values = [float(end) for each, end in zip(asked, ended, strict=True) if each.answerable == answerable]
        if values:
            interval = bootstrap_interval(values)
            cells.append(f"{int(sum(values))} of {len(values)} | {interval.low:.2f} to {interval.high:.2f}")
        else:
            cells.append("- | -")
    return f"| {name} | " + " | ".join(cells) + " |"


def table(asked: Sequence[Asked], fewest: float, most: float) -> str:
    """The model alone, words alone, and the two together: `silence` and `both`."""
    middle = (fewest + most) / 2
    return "\n".join((
        "| who decides | silent, unanswerable | 95 % | silent, answerable | 95 % |",
        "|---|---:|---|---:|---|",
        row("the model", asked, (each.silent for each in asked)),
        row(f"words, more than {middle:.3g} lacking", asked, ((each.lacking or 0) > middle for each in asked)),
        row(f"words above {most:g}, else the model", asked, (each.ends(0.0, most) for each in asked)),
        row(f"words below {fewest:g} and above {most:g}, else the model", asked, (e.ends(fewest, most) for e in asked)),
    ))  # fmt: skip


def main() -> None:
    """Fit, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", default="", help="folders of training runs")
    parser.add_argument("--measure", default="", help="folders of other runs")
    parser.add_argument("--limits", default=f"{FEWEST},{MOST}", help="instead of fitted ones")
    parser.add_argument("--wrong", type=float, default=0.1, help="the most answerable questions that may end silent")
    given = parser.parse_args()
    fewest, most = map(float, given.limits.split(","))
    for name, folders in (("fit", given.fit), ("measured", given.measure)):
        asked = [each for folder in filter(None, folders.split(",")) for each in read(Path(folder))]
        if asked:
            if name == "fit":
                fewest, most = fitted([each for each in asked if each.lacking is not None], given.wrong)
            print(f"{name}: {len(asked)} questions, limits {fewest:g} and {most:g}\n{table(asked, fewest, most)}\n")


if __name__ == "__main__":
    main()
