"""Progress of a question and of what is prepared for it; without a terminal one plain line per step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.spinner import Spinner
from rich.text import Text

from reground.app.cli._common import human_time, human_tokens
from reground.app.cli.display import plain
from reground.app.cli.live import LiveLine
from reground.core.run import Event

if TYPE_CHECKING:
    from rich.console import Console

    from reground.retrieval.settings import IndexReport, Progress


_FIRST_LINE_SECONDS, _LINE_SECONDS = 2.0, 5.0  # for indexing, without a live line
_LARGE = 1_000_000  # bytes of a file that is named


def _of(done: int, size: int) -> str:
    return f"{done / 1e6:.0f} of {size / 1e6:.0f} MB"


class AskProgress(LiveLine):
    """Shows the current step, the calls and tokens so far, and the seconds."""

    _per_second = 8.0

    def __init__(self, console: Console, *, shown: bool) -> None:
        super().__init__(console, shown=shown)
        self._started = time.monotonic()
        self._next_line = self._started + _FIRST_LINE_SECONDS
        self._doing = "starting"
        self._counts = ""
        self._reading: float | None = None  # since when files are read
        self._spinner = Spinner("dots")

    def __rich__(self) -> Spinner:
        seconds = time.monotonic() - self._started
        self._spinner.update(text=Text(f"{self._doing}  {self._counts}  {seconds:.0f} s"))
        return self._spinner

    def on_event(self, event: Event) -> None:
        """Show the step that a method begins, or has finished."""
        usage = event.usage
        self._counts = f"{usage.calls} calls, {human_tokens(usage.tokens)} tokens"
        if event.type == "begin":
            self._doing = f"{event.span.rpartition('/')[2]} {event.name}".strip()
        elif event.step is not None and self._plain:
            self._print(f"{event.span or '/'} {event.name}: {self._counts}")

    def show(self, doing: str) -> None:
        """Show what is done; without a terminal as a line."""
        self._doing = doing
        if self._plain:
            self._print(doing)

    def on_index(self, progress: Progress) -> None:
        """Show the progress of the indexing."""
        if progress.waiting:
            self._doing = "waiting for another process that builds this index"
            return
        self._doing = self._indexing(progress)
        if self._plain and time.monotonic() >= self._next_line:
            self._print(plain(self._doing).plain)
            self._next_line = time.monotonic() + _LINE_SECONDS

    def _indexing(self, progress: Progress) -> str:
        """How far it is, in words; the file only where it is large enough to be waited for."""
        if not progress.total:
            return f"listing files: {progress.listed}"
        if self._reading is None:
            self._reading = time.monotonic()
        said = f"indexing: {progress.files}/{progress.total} files, {_of(progress.all_done, progress.all_size)}"
        if progress.writing:
            return f"{said}, writing the index of {progress.passages} passages"
        elapsed = time.monotonic() - self._reading
        if progress.share > 0 and elapsed >= _FIRST_LINE_SECONDS:
            said += f", about {human_time(elapsed * (1 / progress.share - 1))} left"
        said += f", {progress.documents} documents, {progress.passages} passages"
        return f"{said}, {progress.file} {_of(progress.done, progress.size)}" if progress.size >= _LARGE else said

    def on_report(self, report: IndexReport) -> None:
        """Print what was not read and the notes of an indexing, even if no progress is shown."""
        from reground.retrieval.scan import line

        if unread := line(report):
            self._console.print(plain(unread, "yellow"), soft_wrap=True)
        for note in report.notes:
            self._console.print(plain(note, "yellow"), soft_wrap=True)

    def on_pull(self, what: str, done: int, total: int | None) -> None:
        """Show the progress of a download."""
        size = f"{done / 1e6:.0f}" + (f" of {total / 1e6:.0f}" if total else "") + " MB"
        if self._plain and not self._doing.startswith(what):
            self._print(f"{what} ...")
            self._next_line = time.monotonic() + _LINE_SECONDS
        elif self._plain and time.monotonic() >= self._next_line:
            self._print(f"{what}: {size}")
            self._next_line = time.monotonic() + _LINE_SECONDS
        self._doing = f"{what}: {size}"
