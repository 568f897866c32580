"""Progress while something works: one live line on a terminal, otherwise a plain line from time to time."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


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
