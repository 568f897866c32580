"""Items and the ways to obtain them: crafting from recipe files, everything else from `game.toml`.

A source is the usual way to obtain an item. Rare drops, trading, enchanting (so no Silk Touch), brewing and
stonecutting are left out. An item behind a place or a danger (the Nether, a boss) has a higher `effort`, and the solver
prefers easy items.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import chain
from math import ceil, prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PositiveInt

from reground.core.errors import DataError
from reground.evaluation.data import data_path, fields, read_values

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
_ITEM = fields(name=str, displayName=(str | None, None))
_NETHER, _END = 40.0, 80.0
"""The effort of what is there."""


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
class Slot:
    """An ingredient: `count` pieces of any of the `items`, in any mixture."""

    items: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Way:
    """One way to obtain `item`, `gives` at a time.

    uses: the ingredients consumed each time. tools: groups; one item of each must be held, and is kept. how: a phrase
    such as "mine coal ore", of what the world gives. effort: difficulty relative to felling a tree, which is 1.
    """

    kind: Kind
    item: str
    gives: int
    uses: tuple[Slot, ...] = ()
    tools: tuple[tuple[str, ...], ...] = ()
    how: str = ""
    effort: float = 1.0

    @property
    def needs(self) -> list[tuple[str, ...]]:
        """Groups of alternatives: one item of each is consumed or held."""
        return [*(slot.items for slot in self.uses), *self.tools]

    def times(self, count: int) -> int:
        """The number of repetitions for at least `count` pieces."""
        return ceil(count / self.gives)

    def left_over(self, ingredients: Mapping[str, int]) -> dict[str, int]:
        """Containers that are returned, such as the buckets of a cake's milk."""
        back: dict[str, int] = defaultdict(int)
        if self.kind == "craft":
            for item, count in ingredients.items():
                if item in GAME["left_over"]:
                    back[GAME["left_over"][item]] += count
        return dict(back)


def _gather(
    item: str, how: str, tool: Sequence[str] = (), *, uses: Mapping[str, int] | None = None, effort: float = 1.0
) -> Way:
    """A way to get one item from the world. uses: the ingredients, names or several joined by "or", with a count."""
    slots = tuple(Slot(tuple(names.split(" or ")), count) for names, count in (uses or {}).items())
    return Way("gather", item, 1, slots, (tuple(tool),) if tool else (), how, effort)


def sources(*, raw_metals: bool) -> dict[str, Way]:
    """Every item that the world gives, by name. raw_metals: whether ores drop raw metal, as since 1.17."""
    wooden, ores = pickaxe("wooden"), GAME["ores_since_1_17" if raw_metals else "ores_to_1_16"]
    ways = [_gather(item, how) for item, how in GAME["by_hand"].items()]
    ways += [_gather(item, f"pick {a_or_an(item)}") for item in FLOWERS]
    ways += [_gather(item, how, SHEARS) for item, how in GAME["sheared"].items()]
    ways += [_gather(item, **data) for item, data in GAME["far_away"].items()]
    ways += [_gather(item, f"kill {prey}", effort=2.0) for item, prey in GAME["killed"].items()]
    for item, data in GAME["killed_far_away"].items():
        ways.append(_gather(item, f"kill {data['prey']}", effort=data["effort"]))
    for material, items in GAME["mined"].items():
        ways += [_gather(item, how, pickaxe(material)) for item, how in items.items()]
    for material, items in GAME["mined_in_the_nether"].items():
        for item, how in items.items():
            ways.append(_gather(item, f"{how} in the Nether", pickaxe(material), effort=_NETHER))
    ways += [_gather(item, data["how"], pickaxe(data["pickaxe"])) for item, data in ores.items()]
    ways.append(_gather("end_stone", "mine end stone in the End", wooden, effort=_END))
    ways += [_gather(f"{colour}_wool", f"shear or kill a {name_of(colour)} sheep") for colour in GAME["sheep"]]
    for colour in COLOURS:
        how = f"let water harden {name_of(colour)} concrete powder and mine it"
        ways.append(_gather(f"{colour}_concrete", how, wooden, uses={f"{colour}_concrete_powder": 1}))
    ways += _of_trees()
    ways += [_gather(item, **data) for item, data in GAME["changed"].items()]
    return {way.item: way for way in ways}


def _of_trees() -> Iterator[Way]:
    for wood in WOODS:
        if wood in FUNGI:
            log, bark = f"{wood}_stem", f"{wood}_hyphae"
            yield _gather(log, f"chop a huge {wood} fungus in the Nether", effort=_NETHER)
        else:
            log, bark = f"{wood}_log", f"{wood}_wood"
            yield _gather(log, f"chop {name_of(wood)} trees")
            yield _gather(f"{wood}_leaves", f"cut {name_of(wood)} leaves", SHEARS)
            yield _gather(f"{wood}_sapling", f"break {name_of(wood)} leaves until a sapling drops")
        for part in (log, bark):
            yield _gather(f"stripped_{part}", f"strip {name_of(part)} with an axe", _ANY_AXE, uses={part: 1})


@dataclass(frozen=True)
class World:
    """A version of the game.

    ways: for every obtainable item, the ways to obtain it, with recipes in the file's order. display: the name of every
    item, also of those that cannot be obtained, as the game shows it.
    """

    version: str
    ways: Mapping[str, Sequence[Way]]
    display: Mapping[str, str]
    reachable: frozenset[str] = field(init=False)
    """What can be obtained from an empty inventory."""

    def __post_init__(self) -> None:
        have: set[str] = set()
        changed = True
        while changed:  # to the least fixed point
            changed = False
            for item in self.ways.keys() - have:
                if any(all(have.intersection(group) for group in way.needs) for way in self.ways[item]):
                    have.add(item)
                    changed = True
        object.__setattr__(self, "reachable", frozenset(have))


def load_world(folder: Path, *, version: str = VERSION) -> World:
    """Read `recipes_<version>.jsonl`, and `items_<version>.jsonl` if it exists, from a data root's `minecraft` folder.

    A recipe line has result, count, type, ingredients (a count per item) and either pattern or needs_crafting_table.
    Without the items file, the items are those of the recipes and of `game.toml`. Raises DataError, which names
    file and line.
    """
    path = data_path(folder, "minecraft", f"recipes_{version}.jsonl")
    recipes = [recipe for _, recipe in read_values(path, _Recipe)]
    if not recipes:
        raise DataError("has no recipe", path=path)
    display = _display(path.with_name(f"items_{version}.jsonl"))
    items = {name for recipe in recipes for name in (recipe.result, *recipe.cells)}
    gathered = sources(raw_metals="raw_iron" in items)
    exists = set(display) or items | set(gathered) | {way.item for way in smelting()}
    upgrades = (
        Way(
            "upgrade",
            f"netherite_{gear}",
            1,
            (_one(f"diamond_{gear}"), _one("netherite_ingot")),
            (("smithing_table",),),
        )
        for gear in GAME["upgraded"]
    )
    ways: dict[str, list[Way]] = defaultdict(list)
    for way in chain(gathered.values(), _crafting(recipes), smelting(), upgrades):
        uses = tuple(Slot(tuple(item for item in slot.items if item in exists), slot.count) for slot in way.uses)
        tools = tuple(tuple(item for item in group if item in exists) for group in way.tools)
        # Only with items that the version has; impossible where that leaves no alternative.
        if way.item in exists and all(slot.items for slot in uses) and all(tools):
            ways[way.item].append(replace(way, uses=uses, tools=tools))
    names = {name: display.get(name, name_of(name).title()) for name in sorted(exists)}
    return World(version, dict(ways), names)


def _one(*items: str) -> Slot:
    return Slot(items, 1)


def smelting() -> Iterator[Way]:
    """What is smelted one for one: ores, charcoal, blocks, food, glazed terracotta."""
    logs = [
        f"{stripped}{wood}_{part}"
        for wood in WOODS
        if wood not in FUNGI
        for part in ("log", "wood")
        for stripped in ("", "stripped_")
    ]
    glazed = {f"{colour}_glazed_terracotta": [f"{colour}_terracotta"] for colour in COLOURS}
    groups = [(name, GAME["smelting"][name]) for name in _STATIONS]
    for stations, smelted in (groups[0], ("furnace", {"charcoal": logs}), *groups[1:], ("furnace", glazed)):
        for result, inputs in smelted.items():
            yield Way("smelt", result, 1, (_one(*inputs),), (_STATIONS[stations],))


class _Recipe(BaseModel, frozen=True):
    """One crafting recipe of the files, in which each alternative of a tag has its own line."""

    result: Annotated[str, Field(min_length=1)]
    count: PositiveInt = 1
    ingredients: Annotated[dict[str, PositiveInt], Field(min_length=1)]
    pattern: tuple[tuple[str | None, ...], ...] | None = None
    needs_crafting_table: bool | None = None

    @property
    def laid(self) -> tuple[str, ...]:
        """The pattern's items, row by row."""
        return tuple(cell for row in self.pattern or () for cell in row if cell)

    @property
    def shaped(self) -> bool:
        """Whether the pattern has all ingredients."""
        return Counter(self.laid) == self.ingredients

    @property
    def cells(self) -> tuple[str, ...]:
        """The ingredients, each as often as it is needed."""
        return self.laid if self.shaped else tuple(Counter(self.ingredients).elements())

    @property
    def table(self) -> bool:
        """Whether it needs a crafting table: a file may say it, else the size does."""
        rows = self.pattern or ()
        big = len(rows) > 2 or any(len(row) > 2 for row in rows) or (not rows and len(self.cells) > 4)
        return big if self.needs_crafting_table is None else self.needs_crafting_table


def _crafting(recipes: Iterable[_Recipe]) -> Iterator[Way]:
    """Merge recipes that differ only in one of several alternatives ("any planks") into one way."""
    alike: dict[object, list[_Recipe]] = defaultdict(list)
    for recipe in recipes:
        counts = Counter(recipe.cells)
        symbols = list(counts)
        shape = tuple(map(symbols.index, recipe.cells)) if recipe.shaped else tuple(sorted(counts.values()))
        alike[recipe.result, recipe.count, recipe.shaped, recipe.table, shape].append(recipe)
    for variants in alike.values():
        first = variants[0]
        tools = (("crafting_table",),) if first.table else ()
        for slots in _slots([variant.cells for variant in variants], shaped=first.shaped):
            yield Way("craft", first.result, first.count, slots, tools)


def _slots(variants: Sequence[tuple[str, ...]], *, shaped: bool) -> list[tuple[Slot, ...]]:
    """Merge variants if they are all combinations of some alternatives; otherwise keep them separate."""
    counts = [list(Counter(cells).items()) for cells in variants]
    if not shaped:
        common = set(counts[0]).intersection(*counts[1:])
        counts = [[*sorted(common), *sorted(set(one) - common)] for one in counts]
    columns = [tuple(dict.fromkeys(name for name, _ in column)) for column in zip(*counts, strict=True)]
    mergeable = prod(len(column) for column in columns) == len(set(map(tuple, counts)))
    if mergeable and all(len({count for _, count in column}) == 1 for column in zip(*counts, strict=True)):
        return [tuple(Slot(names, count) for names, (_, count) in zip(columns, counts[0], strict=True))]
    return [tuple(Slot((name,), count) for name, count in one) for one in counts]


def _display(path: Path) -> dict[str, str]:
    items = (item for _, item in read_values(path, _ITEM)) if path.exists() else ()
    return {item.name: item.displayName or name_of(item.name).title() for item in items}
