"""`reground show`: a trajectory file, read back for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reground.app.cli import _common as common


def show(
    file: Annotated[Path, typer.Argument(help="A trajectory file (JSONL).", show_default=False)],
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="Only the n-th trajectory, in full.")
    ] = None,
) -> None:
    """Show trajectories: one line each, or one of them step by step.

    Example:  reground show trace.jsonl -n 1
    """
    from reground.app.cli.display import show_line, show_trajectory
    from reground.core.errors import DataError
    from reground.core.trajectory import read_trajectories

    console, _ = common.consoles()
    count = 0
    for count, trajectory in enumerate(read_trajectories(file), start=1):
        if number is None:
            show_line(console, count, trajectory)
        elif count == number:
            show_trajectory(console, trajectory)
            return
    if number is not None or count == 0:
        raise DataError(f"holds {count} trajectories", path=file)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.command()(show)
