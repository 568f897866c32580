"""What runs left: `reground show` prints trajectories and trees, and `log` earlier questions.

A tree is printed a node a line, and the branch that UCB1 would try next comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from reground.app.cli.console import consoles, human_time, note, print_json
from reground.app.cli.display import plain, short, show_line, show_result, show_trajectory, tell
from reground.app.cli.flags import Json
from reground.app.runs import WITHIN, Result
from reground.core.errors import EXIT_SURROUNDINGS, DataError, did_you_mean
from reground.core.files import expanded, runs_dir
from reground.core.trajectory import read_trajectories
from reground.evaluation.trees import FORMAT, read_tree
from reground.treesearch.mcts import Node, Tree, ucb1, walk
from reground.view.contents import TRACES

T = TypeVar("T")

DEPTH = 6  # levels below the root that are shown: three sub-goals of a plan and their executions
_DEEPEST = 20  # levels that are indented further than the one above
_LEAST = 20  # columns of a text, however deep it stands
_LOGGED = 20  # earlier questions that are listed
_HEAD = 64  # bytes, in which a tree's file says what it is


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
    full: Annotated[bool, typer.Option("--full", help="Show a tree whole: all levels, and all of each text.")] = False,
) -> None:
    """Show trajectories or trees: one line each, or one of them step by step or node by node.

    A file of a folder that cannot be read is named, the others are shown, and the exit code is 2.
    A node's line has its mean reward, its visits and what it says; the branch that UCB1 would try next comes first.

    Example:  reground show trace.jsonl -n 1   ·   reground show runs/rar q12~0   ·   reground show runs/critics q7
    """
    console, _ = consoles()
    unreadable: list[Path] = []
    listed = id is None and number is None
    names: list[str] = []
    matches = 0
    if files := tree_files(expanded(place)):
        names = [unquote(file.stem) for file in files]
        alone = not place.is_dir() and id is None
        for count, (name, file) in enumerate(zip(names, files, strict=True), start=1):
            whole = alone or name == id or count == number
            for tree in _readable(file, lambda path: [read_tree(path)], unreadable) if whole or listed else ():
                if whole:
                    show_tree(console, tree, full=full)
                else:
                    start = f"{name}  {tree.root.visits} visits, mean {tree.root.mean or 0.0:.3f}  "
                    rest = short(_text(tree.root), max(_LEAST, console.width - len(start)))
                    console.print(plain(start + rest), soft_wrap=True)
            matches += whole
    else:
        read = (_readable(file, read_trajectories, unreadable) for file in trajectory_files(place))
        for count, trajectory in enumerate(chain.from_iterable(read), start=1):
            names.append(trajectory.id)
            if listed:
                show_line(console, count, trajectory)
            elif count == number or (id is not None and id in (trajectory.id, trajectory.metadata.get("example"))):
                show_trajectory(console, trajectory)
                matches += 1
    if (not names and not unreadable) or (names and not matches and not listed):
        near = f"of {id!r}; {did_you_mean(id, names)[:300]}" if id is not None and names else None
        raise DataError(f"holds nothing {near}" if near else f"holds {len(names)} trajectories or trees", path=place)
    if unreadable:
        raise typer.Exit(EXIT_SURROUNDINGS)


def log(
    number: Annotated[int | None, typer.Argument(min=1, help="Show the answer with this number.")] = None,
    as_json: Json = False,
) -> None:
    """List your earlier questions, the last first, with their age and cost; or show one with its answer and evidence.

    Example:  reground log   ·   reground log 3
    """
    console, home = consoles()[0], runs_dir()
    files = [*home.glob("ask-*/trajectory.jsonl"), *home.glob(f"{WITHIN}*/ask-*/trajectory.jsonl")]
    files.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    if number is not None and number > len(files):
        raise DataError(f"holds {len(files)} runs", path=home)
    recent = files[:_LOGGED] if number is None else [files[number - 1]]
    read = [(file, each) for file in recent for each in _readable(file, read_trajectories, [])]
    if as_json:
        return print_json(
            [Result.of(each, each.answer, file).to_dict() for file, each in read if each.answer], indent=2
        )
    if not files:
        note("you have asked nothing yet")
    for count, (file, each) in enumerate(read, start=1):
        if number is None:
            show_line(console, count, each, f", {human_time(time.time() - file.stat().st_mtime)} ago")
        elif each.answer is None:
            show_trajectory(console, each)
        else:
            tell(console, plain(each.question, "bold"))
            show_result(console, Result.of(each, each.answer, file))
    return None


def _readable(file: Path, read: Callable[[Path], Iterable[T]], unreadable: list[Path]) -> Iterator[T]:
    """What a file holds, up to the first part that cannot be read; such a file is named and added to `unreadable`."""
    try:
        yield from read(file)
    except DataError as error:
        note(f"error: {' '.join(str(error).split())}")
        unreadable.append(file)


def trajectory_files(place: Path) -> list[Path]:
    """The trajectory files of a path: the file itself, the file of a run folder, or those of a comparison's runs."""
    if not place.is_dir():
        return [place]
    own = [place / name for name in TRACES if (place / name).is_file()]
    files = own[:1] or sorted(file for name in TRACES for file in place.glob(f"*/{name}"))
    if not files:
        raise DataError("not a run folder: it has no trajectories", path=place)
    return files


def tree_files(place: Path) -> list[Path]:
    """The tree files of a path: the file itself, or those of a training's folder."""
    if place.is_dir():
        return sorted((place if place.name == "trees" else place / "trees").glob("*.json"))
    if place.suffix != ".json" or not place.is_file():
        return []
    with place.open("rb") as file:
        return [place] if FORMAT.encode() in file.read(_HEAD) else []


def show_tree(console: Console, tree: Tree[Any], *, full: bool = False) -> None:
    """Print a tree. full: all levels and whole texts, over several lines."""
    about = [f"{name} {value}" for name, value in tree.metadata.items() if isinstance(value, str | int)]
    stopped = [f"stopped by {tree.stopped}"] if tree.stopped else []
    console.print(plain(", ".join([*about, *stopped]), "dim"), soft_wrap=True)
    waiting = [(0, tree.root)]
    while waiting:
        level, node = waiting.pop()
        _show_node(console, level, node, full=full)
        if not full and level >= DEPTH and node.children:
            below = sum(1 for _ in walk(node)) - 1
            console.print(Text(f"{_indent(level + 1)}... {below} nodes below", style="dim"), soft_wrap=True)
            continue
        above, c = max(node.visits, 1), tree.settings.c
        visited = [child for child in node.children if child.visits]
        ordered = sorted(visited, key=lambda child: ucb1(child.value, child.visits, above, c), reverse=True)
        ordered += [child for child in node.children if not child.visits]
        waiting += [(level + 1, child) for child in reversed(ordered)]


def _show_node(console: Console, level: int, node: Node[Any], *, full: bool) -> None:
    mean = "not tried" if node.mean is None else f"{node.mean:.3f}"
    times = f" x{node.copies}" if node.copies > 1 else ""
    head = f"{_indent(level)}{mean}  {node.visits:>3}  {node.label or 'ROOT'}{times}  "
    style = "dim" if node.mean is None else ""
    if full:
        console.print(plain(head.rstrip(), "bold"), soft_wrap=True)
        console.print(Padding(plain(_text(node), style), (0, 0, 0, len(_indent(level)) + 2), expand=False))
        return
    text = short(_text(node), max(_LEAST, console.width - len(head)))
    console.print(Text.assemble(plain(head, "cyan" if node.children else ""), plain(text, style)), soft_wrap=True)


def _indent(level: int) -> str:
    return "  " * min(level, _DEEPEST)


def _text(node: Node[Any]) -> str:
    """What a state says: an observation's text with a document's title, or the question at the root."""
    state = node.state
    if not isinstance(state, dict):
        return str(state)
    passage = state.get("passage")
    title = passage.get("title") if isinstance(passage, dict) else None
    return ": ".join(str(text) for text in (title, state.get("question") or state.get("text")) if text)
