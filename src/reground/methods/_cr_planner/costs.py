"""What planning costs in tokens: whether a budget still covers a sub-goal, and how large a planner a budget carries."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from reground.core.critic import AskingCritic
from reground.methods._budget import INSTRUCTIONS, PASSAGE, affords, tokens_of
from reground.methods._cr_planner.states import GOALS, JUDGES, Goal, State, context

if TYPE_CHECKING:
    from reground.core.critic import Critic
    from reground.core.run import Run
    from reground.critics import Kind
    from reground.methods.cr_planner import CRPlanner

_ASKED = 100
"""Tokens reckoned for the words around what a critic judges."""

_SAID = 20
"""Tokens reckoned for a sub-goal's sentence."""

_FIRST = 3
"""The least rounds: one of each sub-goal."""


def covers(planner: CRPlanner, state: State, goal: Goal, *, choices: int, run: Run) -> bool:
    """Whether the budget left covers the choice of a sub-goal, its execution at full length, and an answer after it."""
    if run.meter.budget.tokens is None and run.meter.budget.calls is None:
        return True
    sizes = {"REASON": planner.longest_step, "GENQUERY": planner.query_tokens, "RETRIEVE": planner.passage_tokens}
    size = sizes[goal]
    calls, tokens = _judged(planner, state, "subgoal", choices, _SAID)
    more_calls, more = _judged(planner, state, JUDGES[goal], planner.candidates, size)
    generated = 0 if goal == "RETRIEVE" else 1
    if generated:
        more += tokens_of(planner.prompt("reason" if goal == "REASON" else "query", state)) + planner.candidates * size
    answer = tokens_of(planner.prompt("answer", state)) + _SAID + size + answer_room(planner)
    return affords(run, calls=calls + more_calls + generated + 1, tokens=tokens + more + answer)


def answer_room(planner: CRPlanner) -> int:
    """Tokens kept for the forced answer: a short one needs few."""
    if planner.ranks:
        return planner.query_tokens
    return min(planner.max_tokens, 64) if planner.form.bare else planner.max_tokens // 2


def _judged(planner: CRPlanner, state: State, kind: Kind, candidates: int, size: int) -> tuple[int, int]:
    """Calls and tokens of a critic's choice."""
    seen = tokens_of(context(state, kind, tokens=planner.passage_tokens)) + _ASKED
    return _choice(planner.judges.of(kind), candidates, seen, size)


def _choice(critic: Critic, candidates: int, seen: int, size: int) -> tuple[int, int]:
    """Calls and tokens of a choice that reads so much; only a critic that is asked in words costs any."""
    if candidates < 2 or not isinstance(critic, AskingCritic):
        return 0, 0
    calls = critic.calls_for(candidates)
    return calls, calls * seen + candidates * size


def scaled(planner: CRPlanner, tokens: int) -> CRPlanner:
    """The largest planner of a ladder that the budget carries, never larger than the one given.

    At the least one round of each sub-goal with a single candidate, whose critic then only chooses sub-goals: what a
    small budget does not cover of it is left out as it comes. Then more candidates; then rounds. A prompted critic
    judges each candidate by itself: asked for the best of a list, a small model named the second of two whatever they
    were (docs/reproduction/all-systems-analysis.md).
    """
    small = replace(
        planner,
        passage_tokens=min(planner.passage_tokens, max(60, tokens // 10)),
        step_tokens=min(planner.step_tokens, max(48, tokens // 16)),
    )
    most, rounds = planner.candidates, planner.max_steps // 2
    ladder = [(count, min(_FIRST, rounds)) for count in range(1, most + 1)]
    ladder += [(most, count) for count in range(_FIRST + 1, rounds + 1)]
    candidates, count = (list(takewhile(lambda rung: _cost(small, *rung) <= tokens, ladder)) or ladder[:1])[-1]
    return replace(small, candidates=candidates, max_steps=2 * count)


def _cost(planner: CRPlanner, candidates: int, rounds: int) -> int:
    """Tokens of a usual run: rounds of reasoning, query and retrieval in turn, and the forced answer."""
    step = max(40, planner.longest_step // 2)
    sizes = (step, 20, min(planner.passage_tokens, PASSAGE))
    critics = planner.judges
    spent = read = 0
    for number in range(rounds):
        kind = number % 3 if planner.retrieval else 0
        size, judge = sizes[kind], critics.of(JUDGES[GOALS[kind]])
        said = read + number * _SAID
        spent += _choice(critics.subgoal, 2, INSTRUCTIONS + said, _SAID)[1] if planner.retrieval else 0
        spent += _choice(judge, candidates, INSTRUCTIONS + read, size)[1]
        spent += INSTRUCTIONS + read + candidates * size if kind < 2 else 0
        read += size
    return spent + INSTRUCTIONS + read + rounds * _SAID + answer_room(planner)
