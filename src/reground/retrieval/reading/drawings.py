"""What charts and diagrams of Office say: the values that a chart was last drawn with, the texts of a diagram."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from reground.retrieval.reading.archive import Archive, Relation, attribute, inside, local, named, number_in, relations
from reground.retrieval.reading.markup import paragraph
from reground.retrieval.reading.number_formats import shown
from reground.retrieval.reading.result import Text

_MOST_LEVELS = 10  # of names before each value of a chart
_NOT_READ = "not all of its charts were read; save them with their values"


def drawings(archive: Archive, part: str, text: Text) -> Iterator[str]:
    """The lines of all drawings that a part refers to."""
    for each in relations(archive, part):
        yield from drawing(archive, each, text)


def drawing(archive: Archive, relation: Relation, text: Text) -> Iterator[str]:
    """The lines of a drawing, of the shapes of a sheet and of their charts; none of another relation. text: is told
    what was not read."""
    if relation.kind == "chart":
        yield from _chart(archive.tree(relation.target), text)
    elif relation.kind in ("diagramData", "drawing"):
        yield from filter(None, map(paragraph, named(archive.tree(relation.target), "p")))
    elif relation.kind == "chartEx":  # waterfalls, maps and the like
        text.partly = text.partly or _NOT_READ
    if relation.kind == "drawing":
        for each in relations(archive, relation.target):
            if each.kind != "drawing":
                yield from drawing(archive, each, text)


def _chart(tree: Any, text: Text) -> Iterator[str]:
    """The title of a chart with those of its axes, and each series as `name: category: value; ...`."""
    titles = (" ".join(map(paragraph, named(each, "p"))).strip() for each in named(tree, "title"))
    yield ": ".join(("Chart", *filter(None, titles)))
    for series in named(tree, "ser"):
        parts = {local(each): each for each in series}
        values = _points(parts.get("val", parts.get("yVal")))
        labels = _points(parts.get("cat", parts.get("xVal")))
        name = " ".join(_points(parts.get("tx")).values()) or "".join(each.text or "" for each in parts.get("tx", ()))
        said = (f"{labels[at]}: {value}" if labels.get(at) else value for at, value in values.items())
        if values:
            yield f"{name.strip()}: {'; '.join(said)}".removeprefix(": ")
        else:
            text.partly = text.partly or _NOT_READ


def _points(element: Any) -> dict[int, str]:
    """The texts or numbers that a chart has stored, by their place; those of outer levels stand before."""
    levels = list(islice(named(element, "lvl"), _MOST_LEVELS)) or [element]
    points = _level_points(levels[0])
    for level in levels[1:]:
        outer = _level_points(level)
        above = ""
        for at in points:
            above = outer.get(at, above)
            points[at] = f"{above} {points[at]}"
    return points


def _level_points(element: Any) -> dict[int, str]:
    code = next((each.text or "" for each in named(element, "formatCode")), "")
    points = dict[int, str]()
    for each in named(element, "pt"):
        stored = next((inner.text or "" for inner in each if local(inner) == "v"), "")
        is_number = inside(each, "numCache", "numLit")
        said = shown(stored, attribute(each, "formatCode") or code) if is_number else stored
        points[number_in(each, "idx", len(points))] = said
    return points
