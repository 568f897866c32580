"""Blocks of a question's work that a limit may end without ending the question."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from reground.core.errors import BudgetExceeded

REFUSING = frozenset({"tokens", "calls"})
"""The limits that refuse one call and may still admit a smaller one."""
COUNTING = REFUSING | {"completion", "usd"}
"""The limits that count the calls in flight with what they cost at most, so that timing decides whom they refuse."""


class Optional:
    """A block that ends early if one of the `limits` refuses a call in it.

    A class, because a type checker does not see that a generator's context manager may swallow an exception.

    note: called with the reason for an early end. held: entered for the duration of the block.
    """

    def __init__(
        self, note: Callable[[str], None], held: AbstractContextManager[None], limits: frozenset[str] = REFUSING
    ) -> None:
        self._note = note
        self._limits = limits
        self._held = held

    def __enter__(self) -> None:
        self._held.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self._held.__exit__(None, None, None)
        if not isinstance(error, BudgetExceeded) or error.limit not in self._limits:
            return False
        self._note(str(error))
        return True
