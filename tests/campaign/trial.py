"""What a campaign is made of: numbered attempts, each repeatable by its number, each worth one trial or several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """One thing that was tried, and whether the promise held.

    kind: the row of the table that it counts in. what: how to repeat it, and what happened if the promise fell.
    """

    kind: str
    held: bool
    what: str


@dataclass(frozen=True)
class Part:
    """One promise and the attempts to break it.

    promise: what "held" means, in one line. short and long: the trials of the short and the long form.
    attempt: the trials of one number; the same number tries the same again. at_once: attempts that may run together.
    """

    name: str
    promise: str
    short: int
    long: int
    attempt: Callable[[int], Awaitable[Sequence[Trial]]]
    at_once: int = 1
