"""From the Search Agent's trajectories to what it is fine-tuned on (ReST meets ReAct, sections 3.4 and 3.5).

A `Turn` is a reasoning step with its samples. `mixture` makes one conversation of each, which teaches its best sample.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import Literal

from pydantic import JsonValue

from reground.core.language import Message
from reground.core.trajectory import Candidate, ChooseStep, GenerateStep, NoteStep, Trajectory
from reground.methods.search_agent import FINISH, UNFORMED
from reground.methods.search_agent.actions import (
    Action,
    CheckAnswer,
    ReviseAnswer,
    Terminate,
    as_data,
    from_data,
    reply,
)
from reground.methods.search_agent.prompts import Prompts
from reground.methods.search_agent.steps import STEPS, Step
from reground.training.rows import Demonstration

BY_NAME = {step.name: step for step in STEPS}
_COPIED, _LEAST_WORDS = 0.9, 4
"""The share of words that a copy has in common with an exemplar's text, and the fewest words that can be a copy."""


@dataclass(frozen=True)
class Sample:
    """A usable sample. text: its comments and its action, written as an exemplar is. logprob: as in Candidate."""

    action: Action
    text: str
    logprob: float | None


@dataclass(frozen=True)
class Turn:
    """A reasoning step: what the model saw besides the exemplars, and what it said.

    trajectory, question: ids. number: its place among the trajectory's steps. samples: the usable ones, in the order in
    which they were drawn. chosen: the index in `samples` of the one that went on.
    """

    trajectory: str
    question: str
    number: int
    step: Step
    state: str
    samples: tuple[Sample, ...]
    chosen: int | None

    @property
    def key(self) -> str:
        """Identifies the turn in a ranking."""
        return f"{self.trajectory}#{self.number}"


def turns_of(trajectory: Trajectory, question: str) -> Iterator[Turn]:
    """A trajectory's reasoning steps, in order. question: the id of its question."""
    chosen = [step for step in trajectory.steps if isinstance(step, ChooseStep) and step.name in BY_NAME]
    for number, choice in enumerate(chosen):
        usable = [i for i, candidate in enumerate(choice.candidates) if candidate.discarded is None]
        yield Turn(
            trajectory.id,
            question,
            number,
            BY_NAME[choice.name],
            choice.context,
            tuple(_sample(choice.candidates[i]) for i in usable),
            usable.index(choice.chosen) if choice.chosen in usable else None,
        )


def stated_of(trajectory: Trajectory, question: str) -> Iterator[Demonstration]:
    """The last call that states a short answer, where it did. It is no step of the paper, and small models need it
    taught: else they find an answer and go on talking.
    """
    notes = {step.name for step in trajectory.steps if isinstance(step, NoteStep)}
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep) and step.name == FINISH]
    if calls and UNFORMED not in notes and not trajectory.is_cut:
        said = Message(role="assistant", content=calls[-1].replies[0].text.strip())
        extra: dict[str, JsonValue] = {"step": FINISH, "trajectory": trajectory.id}
        yield Demonstration(question=question, messages=(*calls[-1].messages, said), extra=extra)


def _sample(candidate: Candidate) -> Sample:
    action = from_data(candidate.data)
    lines = candidate.text.partition("ACTION_SELECTED")[0].splitlines()
    comments = [line.lstrip("# ").rstrip() for line in lines if line.lstrip().startswith("#")]
    return Sample(action, reply(action, list(filter(None, comments))), candidate.logprob)


def fault(action: Action, step: Step) -> str:
    """Why an action is not to be taught; empty for a good one.

    It should have thoughts and has none: "automatically bad" (listing 8); checks have none. Or one of its texts is an
    exemplar's, word for word or nearly; an end says nothing of its own.
    """
    if not isinstance(action, CheckAnswer | ReviseAnswer) and not action.thoughts.strip():
        return "no thoughts"
    if isinstance(action, Terminate):
        return ""
    shared = ((mine & theirs, mine + theirs) for mine in _texts(action) for theirs in _exemplars(step.name))
    copies = any(2 * both.total() >= _COPIED * all_.total() for both, all_ in shared)
    return "copies an exemplar" if copies else ""


@cache
def _exemplars(step: str) -> tuple[Counter[str], ...]:
    return tuple(words for exemplar in BY_NAME[step].exemplars for words in _texts(exemplar.action))


def _texts(action: Action) -> list[Counter[str]]:
    """The words of each of its texts that is long enough to tell a copy from chance."""
    texts = [Counter(value.casefold().split()) for value in as_data(action).values() if isinstance(value, str)]
    return [words for words in texts if words.total() >= _LEAST_WORDS]


def differ(turn: Turn) -> bool:
    """Whether two samples of a turn differ."""
    return len({sample.text for sample in turn.samples}) > 1


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
) -> Mixture:
    """Rows that teach each step's best sample, without exemplars in the prompt.

    A turn is left out if no sample of it can be read, or each that can copies an exemplar or has empty thoughts; a turn
    that was not ranked falls back to perplexity. Where the agent's code gave the action there is no turn. The same
    turns and seed give the same rows. stated: rows of the calls that state the short answer. most: maximum number of
    rows.
    """
    prompts, draw = Prompts(), random.Random(seed)
    made: list[tuple[Demonstration, bool]] = []
    dropped: Counter[str] = Counter()
    for turn in turns:
        faults = [fault(sample.action, turn.step) for sample in turn.samples]
        good = [i for i, each in enumerate(faults) if not each]
        if good:
            best, way = _best(turn, good, by, ranking or {}, draw)
            row = _row(turn, turn.samples[best], prompts.system(turn.step.name), way)
            made.append((row, way != by and differ(turn)))
        else:
            dropped[faults[0] if faults else "no usable sample"] += 1
    made += [(row, False) for row in stated]
    draw.shuffle(made)
    rows = [row for row, _ in made[:most]]
    unranked = sum(missed for _, missed in made[:most])
    return Mixture(rows, Counter(str(row.extra["step"]) for row in rows), dropped, unranked)


def _best(turn: Turn, good: Sequence[int], by: By, ranking: Ranking, draw: random.Random) -> tuple[int, By]:
    """The index of the sample to teach, and what chose it; `good` are those without a fault."""
    if by == "chance":
        return draw.choice(good), by
    ranked = [i for i in ranking.get(turn.key, ()) if i in good] if by == "ranking" else []
    if ranked:
        return ranked[0], by

    def sure(index: int) -> tuple[float, bool, int]:
        logprob = turn.samples[index].logprob
        return (-inf if logprob is None else logprob, index == turn.chosen, -index)

    return max(good, key=sure), "perplexity"


def _row(turn: Turn, sample: Sample, system: str, by: By) -> Demonstration:
    messages = (
        Message(role="system", content=system),
        Message(role="user", content=turn.state),
        Message(role="assistant", content=sample.text),
    )
    extra: dict[str, JsonValue] = {"step": turn.step.name, "trajectory": turn.trajectory, "turn": turn.number, "by": by}
    return Demonstration(question=turn.question, messages=messages, extra=extra)
