"""Progress of `reground questions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reground.app.cli._common import human_tokens, human_usd
from reground.app.cli.live import LiveLine

if TYPE_CHECKING:
    from rich.console import Console

    from reground.proposing.propose import Proposed


class ProposingProgress(LiveLine):
    """Shows how many questions there are, the pairs that were tried, and the cost."""

    def __init__(self, console: Console, wanted: int, pairs: int, *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._wanted, self._pairs = wanted, pairs
        self._kept = 0
        self._text = "starting"

    def on_pair(self, found: Proposed) -> None:
        """Note what has come of a pair. Without a terminal each kept question gives a line, and each tenth pair."""
        grown = len(found.kept) > self._kept
        self._kept = len(found.kept)
        usd = "" if found.usage.usd is None else f"  {human_usd(found.usage.usd)}"
        self._text = (
            f"{self._kept}/{self._wanted} questions  {found.tried}/{self._pairs} pairs tried  "
            f"{human_tokens(found.usage.tokens)} tokens{usd}"
        )
        if self._plain and (grown or found.tried % 10 == 0):
            self._print(self._text)

    def __rich__(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        grid.add_row(ProgressBar(total=self._wanted, completed=self._kept, width=24), Text(self._text))
        return grid
