"""The stages of the agent's training on one folder: grown/, ranking.json, data/mixture.jsonl and the fitted models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reground.core.branches import gather
from reground.core.errors import DataError, ModelError
from reground.core.journal import SqliteJournal, fingerprint
from reground.core.run import Run
from reground.evaluation.results import write_text
from reground.evaluation.runner import is_refusal
from reground.training.agent.mix import Mixture, Ranking
from reground.training.agent.rank import Ranker
from reground.training.agent.turns import Turn, fallbacks, stated_of, turns_of
from reground.training.rows import Demonstration, read_rows, write_demonstrations
from reground.training.runs import scored

GROWN, RANKING, MIXTURE, DEMONSTRATED = "grown", "ranking.json", "mixture", "demonstrated"


@dataclass(frozen=True)
class Usable:
    """How well an agent keeps to the form. turns: steps with at least one usable sample, and all steps, by name."""

    turns: Counter[str]
    usable: Counter[str]
    fallbacks: int

    @property
    def share(self) -> float:
        """The share of all steps that have a usable sample; 0 without steps."""
        return self.usable.total() / self.turns.total() if self.turns else 0.0

    def describe(self) -> str:
        """One line with the share of usable steps, whole and by name."""
        parts = ", ".join(f"{name} {self.usable[name]}/{count}" for name, count in self.turns.items())
        steps = f"{self.turns.total()} steps, {self.share:.0%} with a usable sample"
        return f"{steps} ({parts}); {self.fallbacks} fallbacks"


def grown(out: Path) -> Iterator[Turn]:
    """All reasoning steps of the grown trajectories but those of failed questions.

    What a budget ended counts: each of its steps was whole. Raises DataError where nothing has been grown.
    """
    return _grown(out, failed=False)


def stated(out: Path) -> Iterator[Demonstration]:
    """The calls that state the short answer of the grown trajectories, but for failed questions."""
    for record, trajectory in scored(out / GROWN):
        if record.failure is None:
            yield from stated_of(trajectory, record.example)


def failed_steps(out: Path) -> int:
    """Number of steps of failed questions, which are neither ranked nor taught."""
    return sum(1 for _ in _grown(out, failed=True))


def _grown(out: Path, *, failed: bool) -> Iterator[Turn]:
    if not (out / GROWN).is_dir():
        raise DataError("nothing has been grown here: run reground train agent grow first", path=out)
    for record, trajectory in scored(out / GROWN):
        if (record.failure is not None) == failed:
            yield from turns_of(trajectory, record.example)


def usable(run: Path) -> Usable:
    """How well the agent of a run keeps to the form. Raises DataError where the folder holds no run."""
    steps, with_sample, given = Counter[str](), Counter[str](), 0
    for record, trajectory in scored(run):
        for turn in turns_of(trajectory, record.example):
            steps[turn.step.name] += 1
            with_sample[turn.step.name] += bool(turn.samples)
        given += fallbacks(trajectory)
    return Usable(steps, with_sample, given)


def rankable(out: Path) -> list[Turn]:
    """The steps that have two samples that differ. Raises DataError where nothing has been grown."""
    return [turn for turn in grown(out) if len({sample.text for sample in turn.samples}) > 1]


async def rank(
    out: Path, ranker: Ranker, *, concurrency: int = 8, on_turn: Callable[[int, int], None] = lambda done, total: None
) -> tuple[int, int]:
    """Rank the samples of every step and write ranking.json. Returns the number ranked, and that of unread rankings.

    The calls are in ranking.sqlite, so the same call resumes. on_turn: called with the steps done and all steps. Steps
    that the model refuses, such as one too long for it, count as unread. Raises ModelError where it refuses all.
    """
    turns = rankable(out)
    if not turns:
        raise DataError("no step here has two samples that differ: grow with --set samples=4", path=out)
    name = fingerprint("rank", ranker.model.name, ranker.style, repr(ranker.prompts), str(ranker.max_tokens))
    ranking: dict[str, tuple[int, ...]] = {}
    journal = SqliteJournal(out / "ranking.sqlite")
    left, done = iter(turns), 0
    refused: list[ModelError] = []

    async def work() -> None:
        nonlocal done
        for turn in left:
            try:
                order = await ranker.order(turn, Run(run_id=name, question_id=turn.key, journal=journal))
            except ModelError as error:
                if not is_refusal(error):
                    raise
                refused.append(error)
                order = None
            if order is not None:
                ranking[turn.key] = order
            done += 1
            on_turn(done, len(turns))

    try:
        await gather(*(work() for _ in range(min(concurrency, len(turns)))))
    finally:
        journal.close()
    if refused and not ranking:
        raise refused[0]
    write_text(out / RANKING, json.dumps({key: ranking[key] for key in sorted(ranking)}, indent=1) + "\n")
    return len(ranking), len(turns) - len(ranking)


def read_ranking_file(out: Path) -> Ranking:
    """What `rank` wrote. Raises DataError where it did not, or the file is broken."""
    path = out / RANKING
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): tuple(int(index) for index in order) for key, order in found.items()}
    except FileNotFoundError:
        raise DataError("there is no ranking here: run reground train agent rank first", path=path) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"this is no ranking: {error}", path=path) from None


def write_mixture(out: Path, name: str, mixture: Mixture) -> None:
    """Write the rows to data/name.jsonl."""
    write_demonstrations(out / "data" / f"{name}.jsonl", mixture.rows)


def read_mixture(out: Path, name: str) -> list[Demonstration]:
    """Read the rows of data/name.jsonl. Raises DataError where there are none."""
    return read_rows(out / "data" / f"{name}.jsonl", Demonstration)
