"""Progress of a collection of trees: one live line on a terminal, otherwise a plain line from time to time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from reground.app.cli._common import human_time, say
from reground.app.cli.live import LiveLine

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = 10.0


class CollectProgress(LiveLine):
    """Shows finished trees, simulations and the time left, and a line for every tree that is finished.

    simulations: of each tree.
    """

    def __init__(self, console: Console, simulations: int, *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._each, self._shown = simulations, shown
        self._began = time.monotonic()
        self._next = self._began + _LINE_SECONDS
        self._done = self._trees = self._total = 0

    def __rich__(self) -> Text:
        return Text(self.line(), no_wrap=True, overflow="ellipsis")

    def on_simulation(self, total: int) -> None:
        """Count a simulation. total: the number of trees to grow now, those kept left out."""
        self._done, self._total = self._done + 1, total
        if self._plain and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            self._print(self.line())

    def on_tree(self, line: str, *, kept: bool) -> None:
        """Tell of a tree that is finished. kept: it was there before."""
        self._trees += not kept
        if self._shown:
            say(self._console, line)

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
