"""The states of CR-Planner as a problem for tree search: where the critics' training data comes from (section 2.3)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from reground.core.answers import Answer
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.cr_planner import CRPlanner
from reground.methods.cr_planner.states import Observation, State
from reground.treesearch.mcts import Child
from reground.treesearch.tree import Path, address

_STATE: TypeAdapter[State] = TypeAdapter(State)
_OBSERVATION: TypeAdapter[Observation] = TypeAdapter(Observation)

Rollout = Literal["answer", "first"]
Reward = Callable[[Answer, Run], float | Awaitable[float]]
"""What an answer is worth. What finding that out calls or executes goes through the run, which records it."""


@dataclass(frozen=True, kw_only=True)
class PlannerProblem:
    """What `treesearch.mcts.search` searches; start it at `State(question)`.

    planner: whose candidates are the children; its critics are never asked. run: every call goes through it, in a span
    named by its place in the tree; answers are sampled at its temperature. reward: what an answer is worth, higher is
    better; only the caller knows the gold answer.
    rollout: "answer" forces the answer at once, one call a simulation, as the paper's "generate the final answer based
    on existing observations", a sub-goal that waits among them; "first" plays on with the first candidate of every
    choice.
    """

    planner: CRPlanner
    run: Run
    reward: Reward
    rollout: Rollout = "answer"

    async def expand(self, state: State, path: Path, /) -> Sequence[Child[State]]:
        """The legal sub-goals, or the candidates for the execution of one; nothing where the state is terminal."""
        with self.run.span(f"expand {address(path)}") as span:
            offered = await self.planner.expand(state, span)
        children = [(option.repeats or option, option.candidate) for option in offered]
        return [
            Child(state=first.state, label=first.state.stage, key=first.candidate.text, data=_data(candidate))
            for first, candidate in children
            if first.state is not None
        ]

    async def simulate(self, state: State, path: Path, visit: int, /) -> float:
        """The reward of the answer that the generator comes to from here."""
        with self.run.span(f"simulate {address(path, visit)}") as span:
            first = replace(self.planner, critic="first", critics=None)
            end = await first.walk(state, span) if self.rollout == "first" else state
            answer = await self.planner.finish(end, span, temperature=self.planner.temperature)
        worth = self.reward(answer, span)
        return float(await worth if inspect.isawaitable(worth) else worth)


def _data(candidate: Candidate) -> dict[str, JsonValue]:
    """What training may want to know of a candidate beside its text."""
    logprob = candidate.logprob
    return {**({} if logprob is None or not math.isfinite(logprob) else {"logprob": logprob}), **candidate.data}


def encode(state: State, parent: State | None) -> JsonValue:
    """A state as JSON for a tree's file: whole at the root, elsewhere what it adds to its parent."""
    if parent is None:
        whole: JsonValue = _STATE.dump_python(state, mode="json")
        return whole
    added: JsonValue = _OBSERVATION.dump_python(state.observations[-1], mode="json")
    return added


def decode(value: JsonValue, parent: State | None) -> State:
    """The state back. Raises pydantic's ValidationError, which is a ValueError, where the value is no such thing."""
    return _STATE.validate_python(value) if parent is None else parent.after(_OBSERVATION.validate_python(value))
