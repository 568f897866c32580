"""Progress of a fit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from reground.app.cli._common import human_time
from reground.app.cli.live import LiveLine

if TYPE_CHECKING:
    from rich.console import Console

    from reground.training.fitting import Step

_LINE_SECONDS = 10.0


class FitProgress(LiveLine):
    """Shows the step, the loss, the learning rate, the speed and the time left."""

    def __init__(self, console: Console, what: str, *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._what = what
        self._line = f"{what}: loading"
        self._next = time.monotonic() + 1

    def __rich__(self) -> Text:
        return Text(self._line, no_wrap=True, overflow="ellipsis")

    def on_step(self, step: Step) -> None:
        """Show a step."""
        self._line = f"{self._what}: {describe(step)}"
        last = step.number == step.total
        if self._plain and (last or time.monotonic() >= self._next):
            self._next = time.monotonic() + _LINE_SECONDS
            self._print(self._line)

    def on_note(self, text: str) -> None:
        """Show what is worth knowing, also where progress is not shown."""
        self._console.print(Text(f"note: {text}"), soft_wrap=True)


def describe(step: Step) -> str:
    """A step in one line."""
    left = "" if step.seconds_left is None else f", {human_time(step.seconds_left)} left"
    return (
        f"step {step.number} of {step.total}, loss {step.loss:.4f}, learning rate {step.learning_rate:.1e}, "
        f"{step.examples_per_second:.1f} examples/s{left}"
    )
