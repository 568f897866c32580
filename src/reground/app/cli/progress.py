"""How far the work is, in one line for all commands; and the opening of sessions and models under such a line."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from reground.app import catalogue
from reground.app.cli.console import consoles, harmless, human_time, human_tokens, human_usd, plural
from reground.app.session import Opening, bring_models, spare_the_collector
from reground.core.concurrency import close, in_daemon
from reground.core.language import LanguageModel, Usage
from reground.core.run import Event, Listener, Observer
from reground.models.options import ModelOptions
from reground.retrieval.documents import line

if TYPE_CHECKING:
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import Progress as RunProgress
    from reground.retrieval.settings import IndexReport
    from reground.retrieval.settings import Progress as IndexProgress
    from reground.training.fitting import Step

Opened = TypeVar("Opened")

_FIRST_SECONDS, _LINE_SECONDS = 2.0, 10.0
"""Where no terminal shows the live line: until its first plain line, and between two."""
_LARGE = 1_000_000
"""Bytes of a file that is named while it is indexed."""


@dataclass(frozen=True)
class Work:
    """A cell of an evaluation and its number of runs (questions x repeats)."""

    cell: Cell
    runs: int

    @property
    def weight(self) -> float:
        """The weight of one run in the estimated end: its time is taken to grow with the limit of tokens."""
        return float(self.cell.tokens or 1)


class Progress:
    """One live line on a terminal, elsewhere a plain line from time to time. A context manager.

    title: stands before each line. shown: whether lines are; what was not read and notes are printed anyway.
    """

    def __init__(self, title: str = "", *, visible: bool = True, console: Console | None = None) -> None:
        self._console = console if console is not None else consoles()[1]
        self._title = f"{title}: " if title else ""
        self._text = "starting"
        self._counts = self._doing = ""
        self._step = ("", "")
        self._words: list[Text] = []
        self._began = time.monotonic()
        self._next_line = self._began + _FIRST_SECONDS
        self._reading: float | None = None  # since when files are read
        self._works: Mapping[Any, Work] = {}
        self._runs: dict[Hashable, RunProgress] = {}
        self._spinner = Spinner("dots")
        self._plain = visible and not self._console.is_terminal
        self._live: AbstractContextManager[object] = nullcontext()
        if visible and self._console.is_terminal:
            self._live = Live(self, console=self._console, transient=True, refresh_per_second=8)
        self.observer: Callable[[Observer], Observer] = Listener if isinstance(self._live, Live) else partial

    @property
    def opening(self) -> Opening:
        """What tells this line of a session that is opened."""
        return Opening(self.on_pull, self.on_index, self.on_report)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    @property
    def text(self) -> str:
        """The line."""
        return harmless(f"{self._title}{self._text}{self._doing}{self._counts}")

    def __rich__(self) -> Group:
        seconds = f"  {time.monotonic() - self._began:.0f} s"
        grid = Table.grid(padding=(0, 1))
        grid.add_row(self._spinner, Text(f"{self.text}{seconds}", no_wrap=True, overflow="ellipsis"))
        return Group(grid, *self._words)

    def show(self, text: str, *, now: bool = False) -> None:
        """Replace the line. now: print it also where a plain line has only just been printed."""
        self._text = text
        if self._plain and (now or time.monotonic() >= self._next_line):
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._print(self.text, "dim")

    def count(self, done: int, total: int, unit: str) -> None:
        """Show how many of all are done, and the time left."""
        remaining = (time.monotonic() - self._began) / max(1, done) * (total - done)
        self.show(f"{done} of {total} {unit}, {human_time(remaining)} left", now=done == total)

    def on_event(self, event: Event) -> None:
        """Show the step that a method begins or has finished, and what a model reads and writes meanwhile."""
        counts = f"  {plural(event.usage.calls, 'call')}, {human_tokens(event.usage.tokens)} tokens"
        step = (event.span, event.name)
        if event.type in ("reading", "writing"):
            return self._on_words(event) if step == self._step else None  # of calls at once, the one that began last
        self._step, self._doing, self._words = step, "", []
        if event.type == "begin":
            self._text = f"{event.span.rpartition('/')[2]} {event.name}".strip()
            self._counts = counts if event.usage.calls else ""
            if self._plain:
                self._print(f"{self._text} ...{self._counts}", "dim")

    def _on_words(self, event: Event) -> None:
        """Show how much is read, or the last lines of what is written: of an answer as many as there is room for."""
        if event.type == "reading":
            self._doing = f": {event.read[0]} of {event.read[1]} tokens read"
            return
        is_answer, width = event.sources is not None and event.text != "", self._console.width
        most = max(3, self._console.height - 4) if is_answer else 3
        end = Text(harmless((event.text or event.thought)[-most * width :]), style="" if is_answer else "dim")
        self._words = end.wrap(self._console, width)[-most:]
        self._doing = ": writing" if event.text else ": thinking"

    def on_pull(self, what: str, done: int, total: int | None) -> None:
        """Show the progress of a download."""
        size = f"{done / 1e6:.0f}" + (f" of {total / 1e6:.0f}" if total else "") + " MB"
        self.show(f"{what}: {size}", now=not self._text.startswith(what))

    def on_index(self, index: IndexProgress) -> None:
        """Show how many files, megabytes and seconds; the file only where it is large enough to be waited for."""
        if index.waiting:
            return self.show("waiting for another process that builds this index")
        if not index.total:
            return self.show(f"listing files: {index.listed}")
        if self._reading is None:
            self._reading = time.monotonic()
        text = f"indexing: {index.files}/{index.total} files, {_megabytes(index.all_done, index.all_size)}"
        if index.writing:
            return self.show(f"{text}, writing the index of {plural(index.passages, 'passage')}")
        elapsed = time.monotonic() - self._reading
        if index.share > 0 and elapsed >= _FIRST_SECONDS:
            text += f", about {human_time(elapsed * (1 / index.share - 1))} left"
        text += f", {plural(index.documents, 'document')}, {plural(index.passages, 'passage')}"
        return self.show(f"{text}, {index.file} {_megabytes(index.done, index.size)}" if index.size >= _LARGE else text)

    def on_report(self, report: IndexReport) -> None:
        """Print what was not read and the notes of an indexing that changed the index."""
        for text in filter(None, (line(report), *report.notes)) if report.read or report.removed else ():
            self._print(text, "yellow")

    def on_step(self, step: Step, of: str = "") -> None:
        """Show a step of a fit."""
        remaining = "" if step.seconds_left is None else f", {human_time(step.seconds_left)} left"
        self.show(
            f"{of}step {step.number} of {step.total}, loss {step.loss:.4f}, learning rate {step.learning_rate:.1e}, "
            f"{step.examples_per_second:.1f} examples/s{remaining}",
            now=step.number == step.total,
        )

    def on_note(self, text: str) -> None:
        """Print what is worth knowing."""
        self._print(f"note: {text}")

    def plan(self, works: Mapping[Any, Work]) -> None:
        """Set what an evaluation has to do, each under its key."""
        self._works = works

    def on_run(self, key: Hashable, run: RunProgress) -> None:
        """Show the progress of a work, with the tokens, USD and estimated end of all of them."""
        self._runs[key] = run
        works, runs = self._works, self._runs.values()
        usage, paid = (sum((getattr(each, name) for each in runs), Usage()) for name in ("usage", "paid"))
        parts = [works[key].cell.label]
        if len(works) > 1:
            parts.append(f"run {len(runs)} of {len(works)}")
        parts.append(f"{run.done}/{run.total} done")
        troubles = {name: sum(getattr(each, name) for each in runs) for name in ("failed", "unscored")}
        parts += [f"{count} {name}" for name, count in troubles.items() if count]
        parts.append(f"{human_tokens(usage.tokens)} tokens ({human_tokens(paid.tokens)} now)")
        if usage.usd != 0:
            parts.append("USD unknown" if usage.usd is None else human_usd(usage.usd))
        remaining = self.seconds_left
        parts.append("end unknown" if remaining is None else f"about {human_time(remaining)} left")
        self.show("  ".join(parts), now=run.done == run.total)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until all works are done, from the pace of this attempt; None until a run has finished."""
        runs = self._runs
        remaining = sum(
            (work.runs - (runs[key].done if key in runs else 0)) * work.weight for key, work in self._works.items()
        )
        done = sum((run.done - run.resumed) * self._works[key].weight for key, run in runs.items())
        if not remaining:
            return 0.0
        return sum(run.elapsed for run in runs.values()) / done * remaining if done else None

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(harmless(text), style=style), soft_wrap=True)


def _megabytes(done: int, size: int) -> str:
    return f"{done / 1e6:.0f} of {size / 1e6:.0f} MB"


@asynccontextmanager
async def opened(
    context: Callable[[Opening], AbstractAsyncContextManager[Opened]], *, quiet: bool
) -> AsyncIterator[Opened]:
    """What a context gives, such as a session for many questions; its opening is told a `Progress` of its own."""
    async with AsyncExitStack() as stack:
        with Progress(visible=not quiet) as progress:
            result = await stack.enter_async_context(context(progress.opening))
        spare_the_collector()
        yield result


@asynccontextmanager
async def opened_model(name: str, options: ModelOptions, *, quiet: bool) -> AsyncIterator[LanguageModel]:
    """A model by its name, downloaded with progress if need be, and closed at the end of the block."""
    with Progress(visible=not quiet) as progress:
        await in_daemon(partial(bring_models, [name], progress.on_pull), name="download")
    model = catalogue.load_model(name, options)
    try:
        yield model
    finally:
        await close(model)
