"""Writes a corpus for retrieval: a wiki-like article on every item, from the recipes and the rules."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reground.core.files import replace_lines
from reground_minecraft import rules
from reground_minecraft.names import Names
from reground_minecraft.solver import join_words
from reground_minecraft.world import VERSION, Slot, Way, World, load_world

_MOST_USES = 15
_MOST_ALTERNATIVES = 4


def write_corpus(data: Path, out: Path, *, version: str = VERSION) -> int:
    """Write an article on each item, and one on tools, to the JSONL file `out` (id, title, text).

    data: the data root, as for `load_world`, whose errors it raises. Returns the number of articles.
    """
    world = load_world(data, version=version)
    articles = [*_articles(world), _tools(world)]
    replace_lines(out, (json.dumps(article, ensure_ascii=False).encode() + b"\n" for article in articles))
    return len(articles)


def _articles(world: World) -> Iterator[dict[str, str]]:
    names = Names(world)
    used_for = _used_for(world)
    for item in world.items:
        ways = world.ways.get(item, ())
        if not ways and not used_for.get(item):
            continue
        title = names.display(item)
        sentences = [_opening(title, item)]
        sentences += [_sentence(way) for way in ways] or ["It cannot be obtained in survival mode by ordinary means."]
        sentences += _uses(title, used_for.get(item, []))
        yield {"id": item, "title": title, "text": " ".join(sentences)}


def _opening(title: str, item: str) -> str:
    name = rules.name_of(item)
    return f"{title} is a Minecraft item." if title.lower() == name else f"{title} ({name}) is a Minecraft item."


def _used_for(world: World) -> Mapping[str, list[str]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for item, ways in world.ways.items():
        for way in ways:
            for used in {name for slot in way.uses for name in slot.items}:
                found[used][item] = None
    return {item: list(made) for item, made in found.items()}


def _uses(title: str, made: Sequence[str]) -> list[str]:
    if not made:
        return []
    shown = [rules.name_of(item) for item in made[:_MOST_USES]]
    more = [f"{len(made) - _MOST_USES} other items"] if len(made) > _MOST_USES else []
    return [f"{title} is used to make {join_words([*shown, *more])}."]


def _sentence(way: Way) -> str:
    return {"craft": _craft, "smelt": _smelt, "upgrade": _upgrade, "gather": _gather}[way.kind](way)


def _craft(way: Way) -> str:
    where = "at a crafting table" if way.tools else "in the 2x2 grid of the inventory, without a crafting table"
    needs = join_words([_slot(slot) for slot in way.uses])
    return f"Recipe for {way.gives} {rules.name_of(way.item)}: {needs}, crafted {where}."


def _smelt(way: Way) -> str:
    stations = " or ".join(rules.a_or_an(station) for station in way.tools[0])
    return f"Smelting {_slot(way.uses[0])} in {stations} gives 1 {rules.name_of(way.item)}."


def _upgrade(way: Way) -> str:
    return f"A smithing table upgrades {join_words([_slot(slot) for slot in way.uses])} to 1 {rules.name_of(way.item)}."


def _gather(way: Way) -> str:
    needs = [_tool(group) for group in way.tools] + [_slot(slot) for slot in way.uses]
    name = rules.name_of(way.item)
    needed = f"This needs {join_words(needs)}." if needs else "No tool is needed."
    return f"To obtain {name}, {way.how}. {needed}"


def _tool(group: Sequence[str]) -> str:
    if group[0].endswith("_pickaxe"):
        return f"{rules.a_or_an(group[0])} or a better pickaxe" if len(group) > 1 else rules.a_or_an(group[0])
    return "shears" if group == rules.SHEARS else f"any {group[0].rsplit('_', 1)[-1]}"


def _slot(slot: Slot) -> str:
    """A count and the alternatives; many of them by their last word: "3 planks of any kind"."""
    if len(slot.items) <= _MOST_ALTERNATIVES:
        return f"{slot.count} {' or '.join(rules.name_of(item) for item in slot.items)}"
    tails = dict.fromkeys(item.rsplit("_", 1)[-1] for item in slot.items)
    return f"{slot.count} {' or '.join(tails)} of any kind (such as {rules.name_of(slot.items[0])})"


def _tools(world: World) -> dict[str, str]:
    needed: dict[str, list[str]] = defaultdict(list)
    for item, ways in world.ways.items():
        for group in (group for way in ways if way.kind == "gather" for group in way.tools):
            needed[_tool(group)].append(rules.name_of(item))
    sentences = [f"Gathering {join_words(items)} needs {tool}." for tool, items in needed.items()]
    opening = "What is gathered by hand needs no tool. A tool is kept when it is used."
    station = "Recipes wider or higher than 2x2 need a crafting table, and smelting needs a furnace."
    return {"id": "tools", "title": "Tools and mining", "text": " ".join([opening, *sentences, station])}
