"""One question of a run, answered in this process or in another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from reground.core.budget import Budget
from reground.core.journal import Journal
from reground.core.method import Method, Solved, solve
from reground.core.run import Observer, Run
from reground.evaluation.progress import Tell
from reground.evaluation.task import Example

RUN_ID = "eval"
"""A run's name in the journal of its folder."""


@dataclass(frozen=True)
class Asked:
    """A question and repeat with all that its run depends on, beside the method; small enough to be sent.

    id: of the trajectory and in the journal. method: its name, for the record. hidden: documents it must not find.
    run: the run's name in the journal. example: the question with its gold answers, where its tree is to be grown; a
    method that answers never sees it.
    """

    id: str
    question: str
    method: str
    budget: Budget
    seed: int
    hidden: frozenset[str] = frozenset()
    run: str = RUN_ID
    example: Example | None = None


class Elsewhere(Protocol):
    """Answers questions in other processes."""

    async def solve(self, asked: Asked, journal: Journal, told: Tell, /) -> Solved:
        """As `solve_here`, with every effect in `journal` before the method sees its result.

        Raises the errors of a run, as opposed to those of a question, which are in the trajectory.
        """
        ...


async def solve_here(method: Method, asked: Asked, journal: Journal, observer: Observer | None = None) -> Solved:
    """Answer a question in this process. What the journal has recorded of it is replayed."""
    run = Run(
        run_id=asked.run,
        question_id=asked.id,
        journal=journal,
        budget=asked.budget,
        observer=observer,
        seed=asked.seed,
        hidden=asked.hidden,
    )
    return await solve(method, asked.question, run, id=asked.id, name=asked.method)
