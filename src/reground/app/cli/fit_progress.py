"""Progress of a fit: one live line on a terminal, otherwise a plain line from time to time."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.text import Text

from reground.app.cli.eval_progress import human_time

if TYPE_CHECKING:
    from rich.console import Console

    from reground.training.fitting import Step

_LINE_SECONDS = 10.0


class FitProgress:
    """Shows the step, the loss, the learning rate, the speed and the time left."""

    def __init__(self, console: Console, what: str, *, shown: bool = True) -> None:
        self._console, self._what, self._shown = console, what, shown
        self._line = f"{what}: loading"
        self._next = time.monotonic() + 1
        moving = shown and console.is_terminal
        self._live = Live(self, console=console, transient=True, refresh_per_second=4) if moving else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def __rich__(self) -> Text:
        return Text(self._line, no_wrap=True, overflow="ellipsis")

    def on_step(self, step: Step) -> None:
        """Show a step."""
        self._line = f"{self._what}: {describe(step)}"
        last = step.number == step.total
        if self._shown and self._live is None and (last or time.monotonic() >= self._next):
            self._next = time.monotonic() + _LINE_SECONDS
            self._console.print(self._line, soft_wrap=True, markup=False, highlight=False)


def describe(step: Step) -> str:
    """A step in one line."""
    left = "" if step.seconds_left is None else f", {human_time(step.seconds_left)} left"
    return (
        f"step {step.number} of {step.total}, loss {step.loss:.4f}, learning rate {step.learning_rate:.1e}, "
        f"{step.examples_per_second:.1f} examples/s{left}"
    )
