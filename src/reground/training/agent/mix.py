"""The mixture on which the agent is fine-tuned: one row a reasoning step (ReST meets ReAct, sections 3.4 and 3.5)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue

from reground.core.language import Message
from reground.methods.search_agent.prompts import Prompts
from reground.training.agent.turns import Sample, Turn, copies, is_thoughtless
from reground.training.rows import Demonstration

By = Literal["perplexity", "ranking", "chance"]
"""How a step's sample is chosen: the pilot's way, the self-improvement's, and a control's of the same amount."""

Ranking = Mapping[str, Sequence[int]]
"""Of each turn that was ranked, by its key, the indices of its samples, best first."""


@dataclass(frozen=True)
class Mixture:
    """The rows, how many of each step, and the turns left out by reason.

    unranked: rows that should have been chosen by a ranking, and were by perplexity, because there was none. Those
    without a choice, of samples that are all alike, do not count. added: rows that were not grown, at the end.
    """

    rows: list[Demonstration]
    steps: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    unranked: int = 0
    added: int = 0

    def adding(self, rows: Sequence[Demonstration]) -> Mixture:
        """The same with other rows behind its own."""
        return replace(self, rows=[*self.rows, *rows], added=self.added + len(rows))

    def describe(self) -> str:
        """One line with the numbers of the steps and of those left out."""
        steps = ", ".join(f"{count} {name}" for name, count in self.steps.most_common())
        dropped = ", ".join(f"{count} {why}" for why, count in self.dropped.most_common())
        grown = len(self.rows) - self.added
        parts = [f"{grown} steps ({steps})" if grown else "no steps"]
        if self.added:
            parts.append(f"{self.added} rows added")
        if dropped:
            parts.append(f"left out: {dropped}")
        if self.unranked:
            parts.append(f"{self.unranked} steps by perplexity, because they were not ranked")
        return "; ".join(parts)


def mixture(
    turns: Iterable[Turn],
    stated: Iterable[Demonstration] = (),
    *,
    by: By = "perplexity",
    ranking: Ranking | None = None,
    seed: int = 0,
    most: int | None = None,
    prompts: Prompts | None = None,
) -> Mixture:
    """Rows that teach each step's best sample, without exemplars in the prompt.

    A turn is left out if no sample of it can be read, or each that can copies an exemplar or has empty thoughts; a turn
    that was not ranked falls back to perplexity. Where the agent's code gave the action there is no turn. The same
    turns and seed give the same rows. stated: rows of the calls that state the short answer. most: maximum number of
    rows.
    """
    prompts, draw = prompts if prompts is not None else Prompts(), random.Random(seed)
    made: list[tuple[Demonstration, bool]] = []
    dropped: Counter[str] = Counter()
    for turn in turns:
        good = [i for i, sample in enumerate(turn.samples) if not _fault(turn, sample)]
        if good:
            best, way = _best(turn, good, by, ranking or {}, draw)
            row = _row(turn, turn.samples[best], prompts.system(turn.step.name), way)
            made.append((row, way != by and _differ(turn)))
        else:
            dropped[_fault(turn, turn.samples[0]) if turn.samples else "no usable sample"] += 1
    made += [(row, False) for row in stated]
    draw.shuffle(made)
    rows = [row for row, _ in made[:most]]
    unranked = sum(missed for _, missed in made[:most])
    return Mixture(rows, Counter(str(row.extra["step"]) for row in rows), dropped, unranked)


def _differ(turn: Turn) -> bool:
    return len({sample.text for sample in turn.samples}) > 1


def _fault(turn: Turn, sample: Sample) -> str:
    if is_thoughtless(sample.action):
        return "no thoughts"
    return "copies an exemplar" if copies(sample.action, turn.step) else ""


def _best(turn: Turn, good: Sequence[int], by: By, ranking: Ranking, draw: random.Random) -> tuple[int, By]:
    """The index of the sample to teach, and what chose it; `good` are those without a fault."""
    if by == "chance":
        return draw.choice(good), by
    ranked = [i for i in ranking.get(turn.key, ()) if i in good] if by == "ranking" else []
    if ranked:
        return ranked[0], by
    return max(good, key=lambda i: (_logprob(turn.samples[i]), i == turn.chosen, -i)), "perplexity"


def _logprob(sample: Sample) -> float:
    return sample.logprob if sample.logprob is not None else float("-inf")


def _row(turn: Turn, sample: Sample, system: str, by: By) -> Demonstration:
    messages = (
        Message(role="system", content=system),
        Message(role="user", content=turn.state),
        Message(role="assistant", content=sample.text),
    )
    extra: dict[str, JsonValue] = {"step": turn.step.name, "trajectory": turn.trajectory, "turn": turn.number, "by": by}
    return Demonstration(question=turn.question, messages=messages, extra=extra)
