"""The reasoning steps of the Search Agent's trajectories, each with its samples (ReST meets ReAct, section 3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

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
    which they were drawn. unusable: how many were not. chosen: the index in `samples` of the one that went on.
    """

    trajectory: str
    question: str
    number: int
    step: Step
    state: str
    samples: tuple[Sample, ...]
    unusable: int
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
            len(choice.candidates) - len(usable),
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


def fallbacks(trajectory: Trajectory) -> int:
    """Number of steps for which the agent's code, not its model, gave the action."""
    return sum(isinstance(step, NoteStep) and step.name == "fallback" for step in trajectory.steps)


def _sample(candidate: Candidate) -> Sample:
    action = from_data(candidate.data)
    lines = candidate.text.partition("ACTION_SELECTED")[0].splitlines()
    comments = [line.lstrip("# ").rstrip() for line in lines if line.lstrip().startswith("#")]
    return Sample(action, reply(action, list(filter(None, comments))), candidate.logprob)


def is_thoughtless(action: Action) -> bool:
    """Whether it should have thoughts and has none: "automatically bad" (listing 8). Checks have none."""
    return not isinstance(action, CheckAnswer | ReviseAnswer) and not action.thoughts.strip()


def copies(action: Action, step: Step) -> bool:
    """Whether one of the action's texts is an exemplar's, word for word or nearly. An end says nothing of its own."""
    if isinstance(action, Terminate):
        return False
    return any(_same(mine, theirs) for mine in _texts(action) for theirs in _exemplars(step.name))


@cache
def _exemplars(step: str) -> tuple[Counter[str], ...]:
    return tuple(words for exemplar in BY_NAME[step].exemplars for words in _texts(exemplar.action))


def _texts(action: Action) -> list[Counter[str]]:
    """The words of each of its texts that is long enough to tell a copy from chance."""
    texts = [Counter(value.casefold().split()) for value in as_data(action).values() if isinstance(value, str)]
    return [words for words in texts if words.total() >= _LEAST_WORDS]


def _same(a: Counter[str], b: Counter[str]) -> bool:
    return 2 * (a & b).total() >= _COPIED * (a.total() + b.total())
