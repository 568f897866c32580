"""`reground show`: prints trajectories for a person to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reground.app.cli import _common as common

if TYPE_CHECKING:
    from reground.core.trajectory import Trajectory

_NAMES = ("trajectories.jsonl", "trajectory.jsonl")


def show(
    place: Annotated[
        Path, typer.Argument(help="A trajectory file (JSONL), or the folder of a run.", show_default=False)
    ],
    id: Annotated[
        str | None, typer.Argument(help="Only the trajectory of this question, in full.", show_default=False)
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="Only the n-th trajectory, in full.")
    ] = None,
) -> None:
    """Show trajectories: one line each, or one of them step by step.

    Example:  reground show trace.jsonl -n 1   ·   reground show runs/hotpotqa-rar q12~0
    """
    from reground.app.cli.display import show_line, show_trajectory

    console, _ = common.consoles()
    seen: list[str] = []
    shown = 0
    for count, trajectory in enumerate(_trajectories(place), start=1):
        seen.append(trajectory.id)
        if id is None and number is None:
            show_line(console, count, trajectory)
        elif count == number or (id is not None and id in (trajectory.id, trajectory.metadata.get("example"))):
            show_trajectory(console, trajectory)
            shown += 1
    if not seen or (not shown and not (id is None and number is None)):
        raise _absent(place, seen, id)


def _trajectories(place: Path) -> Iterator[Trajectory]:
    from reground.core.trajectory import read_trajectories

    for file in _files(place):
        yield from read_trajectories(file)


def _files(place: Path) -> list[Path]:
    """The trajectory files of a path: the file itself, the file of a run folder, or those of a comparison's runs."""
    from reground.core.errors import DataError

    if not place.is_dir():
        return [place]
    own = [place / name for name in _NAMES if (place / name).is_file()]
    found = own[:1] or sorted(file for name in _NAMES for file in place.glob(f"*/{name}"))
    if not found:
        raise DataError("not a run folder: it has no trajectories", path=place)
    return found


def _absent(place: Path, seen: list[str], id: str | None) -> Exception:
    from reground.core.errors import DataError, did_you_mean

    if id is None or not seen:
        return DataError(f"holds {len(seen)} trajectories", path=place)
    return DataError(f"holds no trajectory {id!r}; {did_you_mean(id, seen)[:300]}", path=place)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.command()(show)
