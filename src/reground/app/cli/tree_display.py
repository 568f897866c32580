"""Prints a searched tree for a person to read: one node a line, the branch that UCB1 would try next first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import set_cell_size
from rich.padding import Padding
from rich.text import Text

from reground.app.cli.display import plain
from reground.treesearch.files import FORMAT
from reground.treesearch.mcts import ucb1

if TYPE_CHECKING:
    from rich.console import Console

    from reground.treesearch.tree import Node, Tree

DEPTH = 6
"""Levels below the root that are shown: three sub-goals of a plan and their executions."""

_DEEPEST = 20  # levels that are indented further than the one above
_LEAST = 20  # columns of a text, however deep it stands


_HEAD = 64  # bytes, in which a tree's file says what it is


def tree_files(place: Path) -> list[Path]:
    """The tree files of a path: the file itself, or those of a training's folder."""
    if place.is_dir():
        return sorted((place if place.name == "trees" else place / "trees").glob("*.json"))
    if place.suffix != ".json" or not place.is_file():
        return []
    with place.open("rb") as file:
        return [place] if FORMAT.encode() in file.read(_HEAD) else []


def show_tree(console: Console, tree: Tree[Any], *, depth: int | None = DEPTH, full: bool = False) -> None:
    """Print a tree. depth: the levels below the root; None shows all. full: whole texts, over several lines."""
    about = [f"{name} {value}" for name, value in tree.metadata.items() if isinstance(value, str | int)]
    stopped = [f"stopped by {tree.stopped}"] if tree.stopped else []
    console.print(plain(", ".join([*about, *stopped]), "dim"), soft_wrap=True)
    waiting = [(0, tree.root)]
    while waiting:
        level, node = waiting.pop()
        _show_node(console, level, node, full=full)
        if depth is not None and level >= depth and node.children:
            console.print(Text(f"{_indent(level + 1)}... {_below(node)} nodes below", style="dim"), soft_wrap=True)
            continue
        ordered = sorted(node.children, key=lambda child: -priority(child, node.visits, tree.settings.c))
        waiting += [(level + 1, child) for child in reversed(ordered)]


def tree_line(console: Console, name: str, tree: Tree[Any]) -> None:
    """Print one tree in one line."""
    root = tree.root
    head = f"{name}  {root.visits} visits, mean {root.mean or 0.0:.3f}  "
    console.print(plain(head + _cut(said(root), max(_LEAST, console.width - len(head)))), soft_wrap=True)


def _show_node(console: Console, level: int, node: Node[Any], *, full: bool) -> None:
    mean = "not tried" if node.mean is None else f"{node.mean:.3f}"
    times = f" x{node.copies}" if node.copies > 1 else ""
    head = f"{_indent(level)}{mean}  {node.visits:>3}  {node.label or 'ROOT'}{times}  "
    style = "dim" if node.mean is None else ""
    if full:
        console.print(plain(head.rstrip(), "bold"), soft_wrap=True)
        console.print(Padding(plain(said(node), style), (0, 0, 0, len(_indent(level)) + 2), expand=False))
        return
    room = max(_LEAST, console.width - len(head))
    console.print(
        Text.assemble(plain(head, "cyan" if node.children else ""), plain(_cut(said(node), room), style)),
        soft_wrap=True,
    )


def _indent(level: int) -> str:
    return "  " * min(level, _DEEPEST)


def _below(node: Node[Any]) -> int:
    count, waiting = 0, list(node.children)
    while waiting:
        count += 1
        waiting += waiting.pop().children
    return count


def _cut(text: str, width: int) -> str:
    """One line of at most `width` columns."""
    line = " ".join(text.split())
    fits = Text(line).cell_len <= width
    return line if fits else set_cell_size(line, width - 3).rstrip() + "..."


def priority(node: Node[Any], above: int, c: float) -> float:
    """UCB1 among its siblings: which branch would be tried next. above: the parent's visits. Those never tried are
    last."""
    return ucb1(node.value, node.visits, max(above, 1), c) if node.visits else -1e300


def said(node: Node[Any]) -> str:
    """What a state says: an observation's text with a document's title, or the question at the root."""
    state = node.state
    if not isinstance(state, dict):
        return str(state)
    passage = state.get("passage")
    title = passage.get("title") if isinstance(passage, dict) else None
    texts = (title, state.get("question") or state.get("text"))
    return ": ".join(str(text) for text in texts if text)
