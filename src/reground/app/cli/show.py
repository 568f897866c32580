"""`reground show`: prints trajectories and trees for a person to read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_SURROUNDINGS

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.trajectory import Trajectory
    from reground.treesearch.tree import Tree


def show(
    place: Annotated[
        Path,
        typer.Argument(
            help="A trajectory file (JSONL), a tree (JSON), or the folder of a run or a training.", show_default=False
        ),
    ],
    id: Annotated[
        str | None, typer.Argument(help="Only the trajectory or tree of this question, in full.", show_default=False)
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="Only the n-th trajectory or tree, in full.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=0, help="The levels of a tree that are shown; 6 by default, all with --full.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show the texts of a tree whole.")] = False,
) -> None:
    """Show trajectories or trees: one line each, or one of them step by step or node by node.

    A file of a folder that cannot be read is named, the others are shown, and the exit code is 2.
    A node's line has its mean reward, its visits and what it says; the branch that UCB1 would try next comes first.

    Example:  reground show trace.jsonl -n 1   ·   reground show runs/rar q12~0   ·   reground show runs/critics q7
    """
    from reground.app.cli.display import show_line, show_trajectory
    from reground.app.cli.tree_display import tree_files

    console, _ = common.consoles()
    if trees := tree_files(place):
        _show_trees(console, place, trees, id, number, depth=depth, full=full)
        return
    seen: list[str] = []
    shown = 0
    files = _Files()
    for count, trajectory in enumerate(chain.from_iterable(map(files.trajectories, _files(place))), start=1):
        seen.append(trajectory.id)
        if id is None and number is None:
            show_line(console, count, trajectory)
        elif count == number or (id is not None and id in (trajectory.id, trajectory.metadata.get("example"))):
            show_trajectory(console, trajectory)
            shown += 1
    if (not seen and not files.unreadable) or (seen and not shown and not (id is None and number is None)):
        raise _absent(place, seen, id)
    files.end()


class _Files:
    """Reads files one by one, and says which cannot be read."""

    def __init__(self) -> None:
        self.unreadable = 0

    def trajectories(self, file: Path) -> Iterator[Trajectory]:
        """Those of a file, up to the first line that cannot be read."""
        from reground.core.errors import DataError
        from reground.core.trajectory import read_trajectories

        try:
            yield from read_trajectories(file)
        except DataError as error:
            self._say(error)

    def tree(self, file: Path) -> Tree[object] | None:
        """The tree in a file; None if it cannot be read."""
        from reground.treesearch.files import TreeFileError, read_tree

        try:
            return read_tree(file)
        except TreeFileError as error:
            self._say(error)
            return None

    def end(self) -> None:
        """Raise typer.Exit if a file could not be read."""
        if self.unreadable:
            raise typer.Exit(EXIT_SURROUNDINGS)

    def _say(self, error: Exception) -> None:
        from reground.app.cli.terminal import say

        say(f"error: {' '.join(str(error).split())}", error=True)
        self.unreadable += 1


def _show_trees(
    console: Console,
    place: Path,
    files: list[Path],
    id: str | None,
    number: int | None,
    *,
    depth: int | None,
    full: bool,
) -> None:
    from urllib.parse import unquote

    from reground.app.cli.tree_display import DEPTH, show_tree, tree_line

    names = [unquote(file.stem) for file in files]
    alone = not place.is_dir()
    listed = not alone and id is None and number is None
    wanted = [i for i, name in enumerate(names, start=1) if (alone and id is None) or name == id or i == number]
    if not wanted and not listed:
        raise _absent(place, names, id)
    reading = _Files()
    for i in range(1, len(files) + 1) if listed else wanted:
        if (tree := reading.tree(files[i - 1])) is None:
            continue
        if listed:
            tree_line(console, names[i - 1], tree)
        else:
            show_tree(console, tree, depth=depth if depth is not None or full else DEPTH, full=full)
    reading.end()


def trajectories(place: Path) -> Iterator[Trajectory]:
    """Those of a file, a run folder or the runs of a comparison. Raises DataError."""
    from reground.core.trajectory import read_trajectories

    for file in _files(place):
        yield from read_trajectories(file)


def _files(place: Path) -> list[Path]:
    """The trajectory files of a path: the file itself, the file of a run folder, or those of a comparison's runs."""
    from reground.core.errors import DataError
    from reground.view.contents import TRACES

    if not place.is_dir():
        return [place]
    own = [place / name for name in TRACES if (place / name).is_file()]
    found = own[:1] or sorted(file for name in TRACES for file in place.glob(f"*/{name}"))
    if not found:
        raise DataError("not a run folder: it has no trajectories", path=place)
    return found


def _absent(place: Path, seen: list[str], id: str | None) -> Exception:
    from reground.core.errors import DataError, did_you_mean

    if id is None or not seen:
        return DataError(f"holds {len(seen)} trajectories or trees", path=place)
    return DataError(f"holds nothing of {id!r}; {did_you_mean(id, seen)[:300]}", path=place)
