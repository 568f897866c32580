"""Makes the calls of phase 1 before their turn, as if no refinement changed a step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from reground.core.ahead import Guess
from reground.core.evidence import Passage
from reground.methods.rar.steps import Step
from reground.methods.shared.steps import join_steps


async def refine_ahead(
    guess: Guess,
    steps: Sequence[Step],
    i: int,
    *,
    search: Callable[[Step, str], Coroutine[Any, Any, Sequence[Passage]]] | None,
    hold: Callable[[Step, Sequence[Passage]], None],
    refine: Callable[[int, str], Coroutine[Any, Any, str]],
) -> None:
    """Refine the steps after i at once; step i itself is under way.

    steps: copies that nobody else uses. search: for the passages of a step, by the text up to it; None where they are
    there. hold: adds them to the evidence. refine: refines a step by its number, after the text before it.
    """
    before = [join_steps([step.text for step in steps[:j]]) for j in range(len(steps))]
    searches = {}
    if search is not None:
        for j, step in enumerate(steps[i:], i):
            searches[j] = guess.begin(search(step, join_steps([before[j], step.draft])))
    for j, step in enumerate(steps[i:], i):
        if j in searches:
            hold(step, await searches[j])
        if j > i:
            guess.begin(refine(j, before[j]))
