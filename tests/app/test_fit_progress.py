"""What a fit shows while it runs."""

from __future__ import annotations

import io

from rich.console import Console

from reground.app.cli.fit_progress import FitProgress, describe
from reground.training.fitting import Step


def test_a_step_in_one_line() -> None:
    step = Step(12, 300, 0.69314, 9.6e-05, 3.25, 95)
    assert describe(step).startswith("step 12 of 300, loss 0.6931, learning rate 9.6e-05, 3.2 examples/s, ")
    assert describe(step).endswith(" left")
    assert "left" not in describe(Step(1, 300, 0.7, 1e-5, 3.0, None))


def test_without_a_terminal_there_are_few_lines_and_the_last_one() -> None:
    console = Console(file=io.StringIO(), width=40)
    with FitProgress(console, "critic doc") as progress:
        for number in range(1, 101):
            progress.on_step(Step(number, 100, 0.5, 1e-4, 2.0, 100.0 - number))
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 2
    assert lines[-1].startswith("critic doc: step 100 of 100")


def test_quiet_says_nothing() -> None:
    console = Console(file=io.StringIO())
    with FitProgress(console, "critic", shown=False) as progress:
        progress.on_step(Step(1, 1, 0.5, 1e-4, 2.0, 0.0))
    assert console.file.getvalue() == ""
