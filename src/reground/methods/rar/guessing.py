"""Makes the calls of phase 1 before their turn, as if no refinement changed a step."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from reground.core.ahead import Guess, Longest
from reground.core.language import tokens_of
from reground.methods.shared.steps import join_steps

if TYPE_CHECKING:
    from reground.methods.rar import RaR, _Solving


async def refine_ahead(guess: Guess, state: _Solving, i: int, raw: str) -> None:
    """Refine the steps after i at once; step i itself is under way. state: a copy that nobody else uses."""
    steps = state.steps
    before = [join_steps([step.text for step in steps[:j]]) for j in range(len(steps))]
    searches = {}
    if state.config.queries == "sequential":
        for j, step in enumerate(steps[i:], i):
            searches[j] = guess.begin(state._search(step, join_steps([before[j], step.draft])))
    for j, step in enumerate(steps[i:], i):
        if j in searches:
            state._hold(step, await searches[j])
        if j > i:
            own = copy(state)  # what one refinement holds is not another's
            own.evidence, own.support = state.evidence.copy(), []
            guess.begin(own._refine_step(step, before[j], raw if j == len(steps) - 1 else None))


def rest(config: RaR, said: str, steps: int) -> Longest:
    """The calls of so many steps, of the text and of phase 2, each as long as it can get. said: the answer so far."""
    text = tokens_of(f"{config.prompts.refine}{said}") + config.max_tokens
    read = text + config.k * config.passage_tokens + config.reflection_tokens
    step = [(text, config.query_tokens), (read, config.reflection_tokens), (read, config.max_tokens)]
    return [*step * steps, (text, config.max_tokens), *step * config.max_rounds]
