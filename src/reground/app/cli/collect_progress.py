"""Progress of a collection of trees: one live line on a terminal, otherwise a plain line from time to time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.text import Text

from reground.app.cli.eval_progress import human_time

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = 10.0


class CollectProgress:
    """Shows finished trees, simulations and the time left, and a line for every tree that is finished.

    simulations: of each tree.
    """

    def __init__(self, console: Console, simulations: int, *, shown: bool = True) -> None:
        self._console, self._each, self._shown = console, simulations, shown
        self._began = time.monotonic()
        self._next = self._began + _LINE_SECONDS
        self._done = self._trees = self._total = 0
        self._live = ExitStack()

    def __enter__(self) -> Self:
        if self._shown and self._console.is_terminal:
            self._live.enter_context(Live(self, console=self._console, transient=True, refresh_per_second=4))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.close()

    def __rich__(self) -> Text:
        return Text(self.line(), no_wrap=True, overflow="ellipsis")

    def on_simulation(self, total: int) -> None:
        """Count a simulation. total: the number of trees to grow now, those kept left out."""
        self._done, self._total = self._done + 1, total
        if self._shown and not self._console.is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            self._say(self.line())

    def on_tree(self, line: str, *, kept: bool) -> None:
        """Tell of a tree that is finished. kept: it was there before."""
        self._trees += not kept
        if self._shown:
            self._say(line)

    def line(self) -> str:
        """How far it is."""
        whole = self._total * self._each
        if not self._done or not whole:
            return "collecting trees: the first simulations are on their way"
        left = (time.monotonic() - self._began) / self._done * max(0, whole - self._done)
        return (
            f"collecting trees: {self._trees} of {self._total} grown, {self._done} of {whole} simulations, "
            f"{human_time(left)} left"
        )

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)
