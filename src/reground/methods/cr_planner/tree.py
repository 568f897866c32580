"""CR-Planner's states as a problem for tree search, which gives the critics' training data (section 2.3)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from reground.core.answers import Answer
from reground.core.run import Run
from reground.methods.cr_planner import CRPlanner, features
from reground.methods.cr_planner.states import Observation, State
from reground.methods.shared.steps import alike
from reground.treesearch.mcts import Child, Path, address

_STATE: TypeAdapter[State] = TypeAdapter(State)
_OBSERVATION: TypeAdapter[Observation] = TypeAdapter(Observation)

Rollout = Literal["answer", "first"]
Reward = Callable[[Answer, Run], float | Awaitable[float]]
"""The reward of an answer. Its model calls and executions go through the run, which records them."""


@dataclass(frozen=True, kw_only=True)
class PlannerProblem:
    """The problem that `treesearch.mcts.search` searches, starting at `State(question)`.

    planner: generates the children. Its critics are never asked. Answers are sampled at its temperature.
    run: makes every call, in a span named after the node's place in the tree.
    reward: the reward of an answer, higher is better. It comes from the caller, who knows the gold answer.
    rollout: "answer" forces the answer at once, with one call per simulation, as in the paper: "generate the final
    answer based on existing observations". A chosen sub-goal is one of these. "first" plans on with the first candidate
    of every choice.
    """

    planner: CRPlanner
    run: Run
    reward: Reward
    rollout: Rollout = "answer"

    async def expand(self, state: State, path: Path, /) -> Sequence[Child[State]]:
        """The legal sub-goals, or the candidates for the execution of one; empty for a terminal state."""
        with self.run.span(f"expand {address(path)}") as span:
            offered = await self.planner.expand(state, span)
        states = {alike(candidate.text): following for candidate, following in offered if following is not None}
        children = [(candidate, states.get(alike(candidate.text))) for candidate, _ in offered]
        return [
            Child(state=following, label=following.stage, key=alike(candidate.text), data=features(candidate))
            for candidate, following in children
            if following is not None
        ]

    async def simulate(self, state: State, path: Path, visit: int, /) -> float:
        """The reward of the generator's answer from this state."""
        with self.run.span(f"simulate {address(path, visit)}") as span:
            first = replace(self.planner, critic="first", critics=None)
            end = await first.walk(state, span) if self.rollout == "first" else state
            answer = await self.planner.finish(end, span, temperature=self.planner.temperature)
        worth = self.reward(answer, span)
        return float(await worth if inspect.isawaitable(worth) else worth)


def encode(state: State, parent: State | None) -> JsonValue:
    """A state as JSON for a tree's file: the whole state at the root, otherwise only its last observation."""
    if parent is None:
        whole: JsonValue = _STATE.dump_python(state, mode="json")
        return whole
    added: JsonValue = _OBSERVATION.dump_python(state.observations[-1], mode="json")
    return added


def decode(value: JsonValue, parent: State | None) -> State:
    """Read an encoded state. Raises pydantic's ValidationError (a ValueError) for any other value."""
    return _STATE.validate_python(value) if parent is None else parent.after(_OBSERVATION.validate_python(value))
