"""The line that says how far the work is, on a terminal and elsewhere."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from reground.app.cli.console import human_time
from reground.app.cli.progress import Progress, Work
from reground.core.language import Usage
from reground.core.run import Event, Listener
from reground.evaluation.compare import Cell
from reground.evaluation.runner import Progress as RunProgress
from reground.retrieval.settings import Progress as IndexProgress

CELL = Cell(method="a", tokens=1000)


def run(done: int, total: int, elapsed: float, resumed: int = 0, failed: int = 0) -> RunProgress:
    usage = Usage(calls=done, prompt=1000 * done, usd=0.5 * done)
    return RunProgress(done, total, resumed, failed, 0, usage, usage, elapsed, None)


def unseen() -> Progress:
    return Progress(console=Console(file=io.StringIO()))


def test_indexing_tells_files_megabytes_and_the_time_left() -> None:
    written = io.StringIO()
    with Progress(console=Console(file=written, width=200)) as progress:
        progress.on_index(IndexProgress(listed=1200))
        assert "listing files: 1200" in progress.text
        progress.on_index(IndexProgress(files=1, total=10, size=1000, all_size=40_000_000))
        assert "indexing: 1/10 files, 0 of 40 MB, 0 documents" in progress.text
        time.sleep(2.1)
        half = IndexProgress(files=6, total=10, file="a.pdf", size=8_000_000, done=4_000_000, all_size=40_000_000,
                             all_done=20_000_000)  # fmt: skip
        progress.on_index(half)
        assert "6/10 files, 20 of 40 MB, about 2 s left" in written.getvalue(), "a plain line where no terminal is"
        assert "a.pdf 4 of 8 MB" in written.getvalue()
        progress.on_index(half.model_copy(update={"writing": True, "passages": 7}))
        assert "writing the index of 7 passages" in progress.text


def test_the_estimated_end_weighs_runs_by_their_budgets() -> None:
    progress = unseen()
    progress.plan({n: Work(Cell(method="a", tokens=1000 * (n + 1)), 10) for n in range(2)})
    progress.on_run(0, run(0, 10, 0.0))
    assert progress.seconds_left is None
    progress.on_run(0, run(10, 10, 20.0, failed=2))
    assert progress.seconds_left == pytest.approx(40.0)
    progress.on_run(1, run(5, 10, 20.0))
    assert progress.seconds_left == pytest.approx(20.0)
    assert (
        progress.text == "a@2k  run 2 of 2  5/10 done  2 failed  15.0k tokens (15.0k now)  7.5000 USD  about 20 s left"
    )


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_gets_one_moving_line_and_a_file_a_line_from_time_to_time(terminal: bool, width: int) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=width)
    with Progress(console=console) as progress:
        progress.plan({0: Work(CELL, 200), 1: Work(CELL, 200)})
        for done in range(201):
            progress.on_run(0, run(done, 200, 1.0))
    assert "200/200 done" in screen.getvalue()
    if not terminal:
        assert len(screen.getvalue().splitlines()) == 1, "the end, as it came before the first ten seconds"
    rendered = io.StringIO()
    Console(file=rendered, width=width).print(progress)
    assert len(rendered.getvalue().splitlines()) == 1


def test_nothing_is_shown_quietly_but_notes() -> None:
    screen = io.StringIO()
    with Progress("a fit", visible=False, console=Console(file=screen)) as progress:
        progress.count(5, 5, "rows")
        progress.on_note("two rows were cut")
    assert screen.getvalue() == "note: two rows were cut\n"


def test_a_terminal_shows_what_a_model_reads_and_writes_and_a_file_asks_for_no_stream() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=40, height=9)
    with Progress(console=console) as progress:
        observer = progress.observer(progress.on_event)
        assert isinstance(observer, Listener)
        observer(Event("begin", "", "answer", Usage()))
        observer(Event("reading", "", "answer", Usage(), read=(512, 1687)))
        assert "answer: 512 of 1687 tokens read" in progress.text
        for sources, lines in ((None, 3), ((), 5)):
            observer(Event("writing", "", "answer", Usage(), text="word " * 99 + "\x1b[2Jend", sources=sources))
            rendered = io.StringIO()
            Console(file=rendered, width=40).print(progress)
            assert rendered.getvalue().rstrip().endswith("[2Jend")
            assert len(rendered.getvalue().splitlines()) == 1 + lines
    assert not isinstance(unseen().observer(print), Listener)


def test_times_are_told_as_people_do() -> None:
    assert [human_time(seconds) for seconds in (5, 120, 9000)] == ["5 s", "2 min", "2.5 h"]
