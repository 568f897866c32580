"""Items and the ways to obtain them: crafting from recipe files, everything else from `game.toml`.

A source is the usual way to obtain an item. Rare drops, trading, enchanting (so no Silk Touch), brewing and
stonecutting are left out. An item behind a place or a danger (the Nether, a boss) has a higher `effort`, and the solver
prefers easy items.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import chain
from math import ceil, prod
from pathlib import Path
from typing import Any, Literal

from reground.core.errors import DataError
from reground.evaluation.data import Record, data_path, read_records

Kind = Literal["gather", "craft", "smelt", "upgrade"]

VERSION = "1.16.5"
GAME: dict[str, Any] = tomllib.loads(files("reground_minecraft").joinpath("game.toml").read_text("utf-8"))

WOODS, FUNGI, COLOURS, FLOWERS = (tuple(GAME[name]) for name in ("woods", "fungi", "colours", "flowers"))
_MATERIALS = ("wooden", "golden", "stone", "iron", "diamond", "netherite")
_LEVELS = {"wooden": 0, "stone": 2, "iron": 3, "diamond": 4}
_ANY_AXE = tuple(f"{material}_axe" for material in _MATERIALS)
SHEARS = ("shears",)
_STATIONS = {
    "blasting": ("furnace", "blast_furnace"),
    "furnace": ("furnace",),
    "cooking": ("furnace", "smoker", "campfire", "soul_campfire"),
}
_NETHER, _END = 40.0, 80.0
"""The effort of what is there."""

# Items that one piece of fuel smelts, for worlds that require fuel.
FUELS = {
    "coal": 8.0,
    "charcoal": 8.0,
    "coal_block": 80.0,
    "lava_bucket": 100.0,
    "blaze_rod": 12.0,
    "dried_kelp_block": 20.0,
}
WOODEN_FUEL = 1.5


def name_of(item: str) -> str:
    """An identifier as words: "oak_log" is "oak log"."""
    return item.replace("_", " ")


def a_or_an(item: str) -> str:
    """An identifier as words with its article: "an oak log"."""
    return f"{'an' if item[0] in 'aeiou' else 'a'} {name_of(item)}"


def pickaxe(material: str) -> tuple[str, ...]:
    """The pickaxes that are at least as good as one of `material`. A golden one mines no more than a wooden one."""
    return tuple(f"{name}_pickaxe" for name in _MATERIALS[_LEVELS[material] :])


@dataclass(frozen=True)
class Source:
    """How one item is obtained from the world.

    how: a phrase such as "mine coal ore". tool: items of which one must be held; empty needs only hands.
    uses: the consumed items, each as alternatives and a count. gives: the number obtained at a time.
    effort: difficulty relative to felling a tree, which is 1.
    """

    how: str
    tool: tuple[str, ...] = ()
    uses: tuple[tuple[tuple[str, ...], int], ...] = ()
    gives: int = 1
    effort: float = 1.0


def _source(data: Mapping[str, Any]) -> Source:
    """A source as the file has it: the ingredients are names, or several joined by "or", with a count."""
    uses = tuple((tuple(names.split(" or ")), count) for names, count in data.get("uses", {}).items())
    return Source(data["how"], tuple(data.get("tool", ())), uses, effort=data.get("effort", 1.0))


def one(item: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    """One piece of an item, as an ingredient."""
    return (((item,), 1),)


def sources(*, raw_metals: bool) -> dict[str, Source]:
    """Every item that the world gives, by name. raw_metals: whether ores drop raw metal, as since 1.17."""
    found = {item: Source(how) for item, how in GAME["by_hand"].items()}
    found |= {item: Source(f"pick {a_or_an(item)}") for item in FLOWERS}
    found |= {item: Source(how, tool=SHEARS) for item, how in GAME["sheared"].items()}
    found |= {item: _source(data) for item, data in GAME["far_away"].items()}
    found |= {item: Source(f"kill {prey}", effort=2.0) for item, prey in GAME["killed"].items()}
    for item, data in GAME["killed_far_away"].items():
        found[item] = Source(f"kill {data['prey']}", effort=data["effort"])
    for material, items in GAME["mined"].items():
        found |= {item: Source(how, pickaxe(material)) for item, how in items.items()}
    for material, items in GAME["mined_in_the_nether"].items():
        for item, how in items.items():
            found[item] = Source(f"{how} in the Nether", pickaxe(material), effort=_NETHER)
    for item, data in GAME["ores_since_1_17" if raw_metals else "ores_to_1_16"].items():
        found[item] = Source(data["how"], pickaxe(data["pickaxe"]))
    found["end_stone"] = Source("mine end stone in the End", pickaxe("wooden"), effort=_END)
    found |= {f"{colour}_wool": Source(f"shear or kill a {name_of(colour)} sheep") for colour in GAME["sheep"]}
    return found | _concrete() | _wood() | {item: _source(data) for item, data in GAME["changed"].items()}


def _concrete() -> dict[str, Source]:
    return {
        f"{colour}_concrete": Source(
            f"let water harden {name_of(colour)} concrete powder and mine it",
            pickaxe("wooden"),
            uses=one(f"{colour}_concrete_powder"),
        )
        for colour in COLOURS
    }


def _wood() -> dict[str, Source]:
    found: dict[str, Source] = {}
    for wood in WOODS:
        if wood in FUNGI:
            log, bark, effort = f"{wood}_stem", f"{wood}_hyphae", _NETHER
            found[log] = Source(f"chop a huge {wood} fungus in the Nether", effort=effort)
        else:
            log, bark, effort = f"{wood}_log", f"{wood}_wood", 1.0
            found[log] = Source(f"chop {name_of(wood)} trees")
            found[f"{wood}_leaves"] = Source(f"cut {name_of(wood)} leaves", tool=SHEARS)
            found[f"{wood}_sapling"] = Source(f"break {name_of(wood)} leaves until a sapling drops")
        found[f"stripped_{log}"] = Source(f"strip {name_of(log)} with an axe", _ANY_AXE, uses=one(log))
        found[f"stripped_{bark}"] = Source(f"strip {name_of(bark)} with an axe", _ANY_AXE, uses=one(bark))
    return found


@dataclass(frozen=True)
class Slot:
    """An ingredient: `count` pieces of any of the `items`, in any mixture."""

    items: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Way:
    """One way to obtain `item`, `gives` at a time.

    uses: the ingredients consumed each time. tools: groups; one item of each must be held, and is kept.
    effort: difficulty relative to felling a tree.
    """

    kind: Kind
    item: str
    gives: int
    uses: tuple[Slot, ...] = ()
    tools: tuple[tuple[str, ...], ...] = ()
    how: str = ""
    effort: float = 1.0

    def times(self, count: int) -> int:
        """The number of repetitions for at least `count` pieces."""
        return ceil(count / self.gives)

    def left_over(self, used: Mapping[str, int]) -> dict[str, int]:
        """Containers that are returned, such as the buckets of a cake's milk."""
        back: dict[str, int] = defaultdict(int)
        if self.kind == "craft":
            for item, count in used.items():
                if item in GAME["left_over"]:
                    back[GAME["left_over"][item]] += count
        return dict(back)


@dataclass(frozen=True)
class World:
    """A version of the game.

    ways: for every obtainable item, the ways to obtain it, with recipes in the file's order.
    display: the name shown in the game. fuel: whether smelting needs fuel; otherwise a furnace is enough.
    """

    version: str
    ways: Mapping[str, Sequence[Way]]
    display: Mapping[str, str]
    fuel: bool = False
    reachable: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reachable", _reachable(self.ways))

    @property
    def items(self) -> Iterable[str]:
        """Every item of the version, including those that cannot be obtained."""
        return self.display.keys()

    def fuels(self) -> dict[str, float]:
        """The number of items that one piece of each fuel smelts."""
        wooden = (name for name in self.display if name.endswith(("_planks", "_log", "_wood")))
        known = {name: items for name, items in FUELS.items() if name in self.display}
        return known | dict.fromkeys(wooden, WOODEN_FUEL)


def load_world(folder: Path, *, version: str = VERSION, fuel: bool = False) -> World:
    """Read `recipes_<version>.jsonl`, and `items_<version>.jsonl` if it exists, from a data root's `minecraft` folder.

    A recipe line has result, count, type, ingredients (a count per item) and either pattern or needs_crafting_table.
    Without the items file, the items are those of the recipes and of `game.toml`. Raises DataError, which names
    file and line.
    """
    path = data_path(folder, "minecraft", f"recipes_{version}.jsonl")
    recipes = [_recipe(record, path, line) for line, record in enumerate(read_records(path), start=1)]
    if not recipes:
        raise DataError("has no recipe", path=path)
    named = {name for recipe in recipes for name in (recipe.result, *recipe.names())}
    display = _display(path.with_name(f"items_{version}.jsonl"))
    return build_world(recipes, display, named, version=version, fuel=fuel)


@dataclass(frozen=True)
class Recipe:
    """One crafting recipe of the files, in which each alternative of a tag has its own line."""

    result: str
    count: int
    cells: tuple[str, ...]
    shaped: bool
    table: bool

    def names(self) -> set[str]:
        """The distinct ingredients."""
        return set(self.cells)


def build_world(
    recipes: Sequence[Recipe], display: Mapping[str, str], named: set[str], *, version: str, fuel: bool = False
) -> World:
    """Put recipes and sources together. An empty `display` lets every item of theirs exist."""
    gathered = sources(raw_metals="raw_iron" in named)
    exists = set(display) or named | set(gathered) | {way.item for way in _smelting()}
    ways: dict[str, list[Way]] = defaultdict(list)
    for way in chain(_gathering(gathered), _crafting(recipes), _smelting(), _upgrading()):
        kept = _restricted(way, exists)
        if kept is not None:
            ways[kept.item].append(kept)
    names = {name: display.get(name, name_of(name).title()) for name in sorted(exists)}
    return World(version, dict(ways), names, fuel)


def _restricted(way: Way, exists: set[str]) -> Way | None:
    """The way with only items that the version has; None where that leaves it impossible."""
    uses = tuple(Slot(tuple(item for item in slot.items if item in exists), slot.count) for slot in way.uses)
    tools = tuple(tuple(item for item in group if item in exists) for group in way.tools)
    if way.item not in exists or not all(slot.items for slot in uses) or not all(tools):
        return None
    return Way(way.kind, way.item, way.gives, uses, tools, way.how, way.effort)


def _gathering(gathered: Mapping[str, Source]) -> Iterable[Way]:
    for item, source in gathered.items():
        uses = tuple(Slot(items, count) for items, count in source.uses)
        tools = (source.tool,) if source.tool else ()
        yield Way("gather", item, source.gives, uses, tools, source.how, source.effort)


def _smelting() -> Iterable[Way]:
    """What is smelted one for one: ores, charcoal, blocks, food, glazed terracotta."""
    logs = tuple(
        f"{stripped}{wood}_{part}"
        for wood in WOODS
        if wood not in FUNGI
        for part in ("log", "wood")
        for stripped in ("", "stripped_")
    )
    glazed = {f"{colour}_glazed_terracotta": [f"{colour}_terracotta"] for colour in COLOURS}
    groups = [(name, GAME["smelting"][name]) for name in _STATIONS]
    for stations, smelted in (groups[0], ("furnace", {"charcoal": logs}), *groups[1:], ("furnace", glazed)):
        for result, inputs in smelted.items():
            yield Way("smelt", result, 1, (Slot(tuple(inputs), 1),), (_STATIONS[stations],))


def _upgrading() -> Iterable[Way]:
    for gear in GAME["upgraded"]:
        uses = (Slot((f"diamond_{gear}",), 1), Slot(("netherite_ingot",), 1))
        yield Way("upgrade", f"netherite_{gear}", 1, uses, (("smithing_table",),))


def _crafting(recipes: Iterable[Recipe]) -> Iterable[Way]:
    """Merge recipes that differ only in one of several alternatives ("any planks") into one way."""
    alike: dict[object, list[Recipe]] = defaultdict(list)
    for recipe in recipes:
        symbols = tuple(dict.fromkeys(recipe.cells))
        counts = tuple(recipe.cells.count(symbol) for symbol in symbols)
        shape = tuple(symbols.index(cell) for cell in recipe.cells) if recipe.shaped else tuple(sorted(counts))
        alike[recipe.result, recipe.count, recipe.shaped, recipe.table, shape].append(recipe)
    for variants in alike.values():
        first = variants[0]
        tools = (("crafting_table",),) if first.table else ()
        for slots in _slots([variant.cells for variant in variants], shaped=first.shaped):
            yield Way("craft", first.result, first.count, slots, tools)


def _slots(variants: Sequence[tuple[str, ...]], *, shaped: bool) -> list[tuple[Slot, ...]]:
    """Merge variants if they are all combinations of some alternatives; otherwise keep them separate."""
    counted = [_counted(cells) for cells in variants]
    if not shaped:
        common = set(counted[0]).intersection(*counted[1:])
        counted = [[*sorted(common), *sorted(set(one) - common)] for one in counted]
    columns = [tuple(dict.fromkeys(name for name, _ in column)) for column in zip(*counted, strict=True)]
    mergeable = prod(len(column) for column in columns) == len(set(map(tuple, counted)))
    if mergeable and all(len({count for _, count in column}) == 1 for column in zip(*counted, strict=True)):
        return [tuple(Slot(names, count) for names, (_, count) in zip(columns, counted[0], strict=True))]
    return [tuple(Slot((name,), count) for name, count in one) for one in counted]


def _counted(cells: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(name, cells.count(name)) for name in dict.fromkeys(cells)]


def _recipe(record: Record, path: Path, line: int) -> Recipe:
    result, count, ingredients = record.get("result"), record.get("count", 1), record.get("ingredients")
    if not isinstance(result, str) or not result:
        raise DataError("a recipe needs a result: the item's name", path=path, line=line)
    if not isinstance(count, int) or count < 1:
        raise DataError(f"the count of {result} must be a whole number above 0", path=path, line=line)
    if not isinstance(ingredients, dict) or not ingredients:
        raise DataError(f"the recipe of {result} needs ingredients: a count an item", path=path, line=line)
    cells: list[str] = []
    for name, number in ingredients.items():
        if not isinstance(number, int) or number < 1:
            raise DataError(f"the recipe of {result} needs a count above 0 of {name}", path=path, line=line)
        cells += [name] * number
    pattern = record.get("pattern")
    rows = [row for row in pattern if isinstance(row, list)] if isinstance(pattern, list) else []
    laid = [cell for row in rows for cell in row if isinstance(cell, str)]
    big = len(rows) > 2 or any(len(row) > 2 for row in rows) or (not rows and len(cells) > 4)
    table = record.get("needs_crafting_table", big)
    shaped = sorted(laid) == sorted(cells)
    return Recipe(result, count, tuple(laid if shaped else cells), shaped, bool(table))


def _display(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    found = {}
    for line, record in enumerate(read_records(path, ("name",)), start=1):
        name, shown = record["name"], record.get("displayName")
        if not isinstance(name, str):
            raise DataError("an item's name must be text", path=path, line=line)
        found[name] = shown if isinstance(shown, str) else name_of(name).title()
    return found


def _reachable(ways: Mapping[str, Sequence[Way]]) -> frozenset[str]:
    """The items that can be obtained from an empty inventory: the least fixed point."""
    have: set[str] = set()
    grown = True
    while grown:
        grown = False
        for item, options in ways.items():
            if item not in have and any(_possible(way, have) for way in options):
                have.add(item)
                grown = True
    return frozenset(have)


def _possible(way: Way, have: set[str]) -> bool:
    needs = chain((slot.items for slot in way.uses), way.tools)
    return all(any(item in have for item in group) for group in needs)
