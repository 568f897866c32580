"""Resolves people's names for items to the game's identifiers: display names, plurals, old and family names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches

from reground_minecraft.world import COLOURS, FLOWERS, FUNGI, GAME, WOODS, World, name_of

_TREES = [wood for wood in WOODS if wood not in FUNGI]
_LOGS = tuple(f"{wood}_stem" if wood in FUNGI else f"{wood}_log" for wood in WOODS)
_ALIASES: dict[str, tuple[str, ...]] = {
    **{name: tuple(items) for name, items in GAME["aliases"].items()},
    "dye": tuple(f"{colour}_dye" for colour in COLOURS),
    "wool": tuple(f"{colour}_wool" for colour in COLOURS),
    "flower": FLOWERS,
    **dict.fromkeys(("log", "wood", "wood_log", "wooden_log", "tree_log", "tree", "wood_block", "tree_trunk"), _LOGS),
    **dict.fromkeys(("wood_plank", "wooden_plank", "plank"), tuple(f"{wood}_planks" for wood in WOODS)),
    **{f"{wood}{end}": (f"{wood}_log",) for wood in _TREES for end in ("", "_wood", "_wood_log", "_tree")},
    **{f"{wood}_wood_plank": (f"{wood}_planks",) for wood in WOODS},
    **{f"{colour}_flower": tuple(flowers) for colour, flowers in GAME["flowers_of_colour"].items()},
}

# Words at the start of a name that the game spells differently.
_PREFIXES = (
    *(("wood_", "wooden_"), ("gold_", "golden_"), ("raw_", ""), ("piece_of_", "")),
    *(("block_of_", ""), ("blocks_of_", ""), ("ball_of_", "")),
)


@dataclass(frozen=True)
class Resolved:
    """The items that a name may mean, best first; if there are none, similar names."""

    items: tuple[str, ...]
    suggestions: tuple[str, ...] = ()


class Names:
    """Resolves names for one world.

    A name that lacks a colour or wood ("bed", "planks", "boat") means any item of that family.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        counts = Counter(world.display.values())
        self._index = {_key(name): name for name in world.display}
        for name, display in world.display.items():
            if counts[display] == 1:
                self._index.setdefault(_key(display), name)
        self._squashed = {key.replace("_", ""): name for key, name in self._index.items()}
        self._cache: dict[str, Resolved] = {}
        self._counts = counts

    def display(self, item: str) -> str:
        """The name to write for an item: the game's own, where no other item shares it."""
        name = self._world.display.get(item, "")
        own = self._index.get(_key(name)) == item
        return name if own and self._counts[name] == 1 else name_of(item).title()

    def resolve(self, raw: str) -> Resolved:
        """The items that `raw` may mean in this world."""
        if raw not in self._cache:
            self._cache[raw] = self._resolve(_key(raw))
        return self._cache[raw]

    def _resolve(self, key: str) -> Resolved:
        for form in _forms(key):
            items = [self._index[form]] if form in self._index else []
            items += [name for name in _ALIASES.get(form, ()) if name in self._world.display]
            if items:
                return Resolved(tuple(dict.fromkeys(items)))
        for form in _forms(key):
            if family := self._family(form):
                return Resolved(family)
        squashed = self._squashed.get(key.replace("_", ""))
        if squashed is not None:
            return Resolved((squashed,))
        close = get_close_matches(key, list(self._index), n=2, cutoff=0.6)
        return Resolved((), tuple(dict.fromkeys(self._index[name] for name in close)))

    def _family(self, form: str) -> tuple[str, ...]:
        for members in (WOODS, COLOURS):
            for name in (form, form.removeprefix("wooden_"), form.removeprefix("wood_")):
                if f"{members[0]}_{name}" in self._world.display:
                    items = (f"{member}_{name}" for member in members)
                    return tuple(item for item in items if item in self._world.display)
        return ()


def _key(raw: str) -> str:
    """Lower case, one underscore between words, no articles, no namespace, no decoration."""
    text = raw.lower().strip().removeprefix("minecraft:")
    text = re.sub(r"['’`*\"]", "", text)
    text = re.sub(r"[^a-z0-9]+", "_", text).strip("_")
    return re.sub(r"^(?:an?|the|some|any|of|fresh)_", "", text)


def _forms(key: str) -> list[str]:
    """The name itself, then in the singular and the plural, then with the game's spelling of its first word."""
    forms = [key]
    for base in (key, *(new + key.removeprefix(old) for old, new in _PREFIXES if key.startswith(old))):
        singular = _singular(base)
        forms += [base, singular, f"{base}s", f"{singular}s", re.sub("y$", "ies", base)]
        head, _, tail = base.partition("_")
        forms += [f"{_singular(head)}_{tail}"] if tail else []
    block = re.match(r"blocks?_of_(.+)", key)
    if block:
        forms.insert(1, f"{_singular(block.group(1))}_block")
    return list(dict.fromkeys(forms))


def _singular(name: str) -> str:
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith("ves"):
        return f"{name[:-3]}f"
    if re.search(r"(?:ch|sh|x|ss)es$", name):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name
