"""Progress while something works: one live line on a terminal, otherwise a plain line from time to time."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.text import Text

from reground.app.cli._common import human_time

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from reground.training.fitting import Step

_LINE_SECONDS = 10.0


class LiveLine:
    """A context manager that shows `__rich__` on a terminal. Elsewhere a subclass calls `_print` where `_plain`."""

    _per_second = 4.0

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        self._console = console
        self._plain = shown and not console.is_terminal
        moving = shown and console.is_terminal
        self._live = (
            Live(self, console=console, transient=True, refresh_per_second=self._per_second) if moving else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def __rich__(self) -> RenderableType:
        raise NotImplementedError

    def _print(self, text: str) -> None:
        self._console.print(Text(text, style="dim"), soft_wrap=True)


class TrainingProgress(LiveLine):
    """How far a training is: a live line on a terminal, otherwise a line from time to time."""

    def __init__(self, console: Console, what: str, *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._what, self._text = what, f"{what}: loading"
        self._began = time.monotonic()
        self._next = self._began + 1

    def __rich__(self) -> Text:
        return Text(self._text, no_wrap=True, overflow="ellipsis")

    def show(self, text: str, *, now: bool = False) -> None:
        """Replace the line. now: print it also where lines have only just been printed."""
        self._text = f"{self._what}: {text}"
        if self._plain and (now or time.monotonic() >= self._next):
            self._next = time.monotonic() + _LINE_SECONDS
            self._print(self._text)

    def count(self, done: int, total: int, unit: str) -> None:
        """Show how many of all are done, and the time left."""
        left = (time.monotonic() - self._began) / max(1, done) * (total - done)
        self.show(f"{done} of {total} {unit}, {human_time(left)} left", now=done == total)

    def on_step(self, step: Step) -> None:
        """Show a step of a fit."""
        left = "" if step.seconds_left is None else f", {human_time(step.seconds_left)} left"
        self.show(
            f"step {step.number} of {step.total}, loss {step.loss:.4f}, learning rate {step.learning_rate:.1e}, "
            f"{step.examples_per_second:.1f} examples/s{left}",
            now=step.number == step.total,
        )

    def on_note(self, text: str) -> None:
        """Show what is worth knowing, also where progress is not shown."""
        self._console.print(Text(f"note: {text}"), soft_wrap=True)
