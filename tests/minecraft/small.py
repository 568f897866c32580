"""A small world of hand-written recipes, for tests that need no data."""

from __future__ import annotations

import json
from pathlib import Path

from reground_minecraft.world import World, load_world

WOODS = ("oak", "birch", "acacia")


def _shaped(result: str, rows: list[str], key: dict[str, str], count: int = 1) -> dict:
    pattern = [[key.get(symbol) for symbol in row] for row in rows]
    cells = [cell for row in pattern for cell in row if cell]
    return {
        "result": result,
        "count": count,
        "type": "crafting_shaped",
        "ingredients": {name: cells.count(name) for name in sorted(set(cells))},
        "pattern": pattern,
    }


def _shapeless(result: str, ingredients: dict[str, int], count: int = 1) -> dict:
    return {"result": result, "count": count, "type": "crafting_shapeless", "ingredients": ingredients, "pattern": None}


def recipes() -> list[dict]:
    found = []
    for wood in WOODS:
        planks = f"{wood}_planks"
        found += [_shapeless(planks, {f"{wood}_{part}": 1}, 4) for part in ("log", "wood")]
        found.append(_shaped(f"{wood}_wood", ["##", "##"], {"#": f"{wood}_log"}, 3))
        found.append(_shaped("crafting_table", ["##", "##"], {"#": planks}))
        found.append(_shaped("stick", ["#", "#"], {"#": planks}, 4))
        found.append(_shaped("chest", ["###", "# #", "###"], {"#": planks}))
        found.append(_shaped("wooden_pickaxe", ["###", " | ", " | "], {"#": planks, "|": "stick"}))
        found.append(_shaped(f"{wood}_boat", ["# #", "###"], {"#": planks}))
    for material, name in (
        ("cobblestone", "stone"),
        ("iron_ingot", "iron"),
        ("diamond", "diamond"),
        ("gold_ingot", "golden"),
    ):
        found.append(_shaped(f"{name}_pickaxe", ["###", " | ", " | "], {"#": material, "|": "stick"}))
    for coal in ("coal", "charcoal"):
        found.append(_shaped("torch", ["c", "|"], {"c": coal, "|": "stick"}, 4))
    found.append(_shaped("furnace", ["###", "# #", "###"], {"#": "cobblestone"}))
    found.append(_shaped("bucket", ["# #", " # "], {"#": "iron_ingot"}))
    found.append(_shaped("shears", [" #", "# "], {"#": "iron_ingot"}))
    found.append(
        _shaped("blast_furnace", ["iii", "ifi", "sss"], {"i": "iron_ingot", "f": "furnace", "s": "smooth_stone"})
    )
    found.append(_shaped("cake", ["mmm", "ses", "www"], {"m": "milk_bucket", "s": "sugar", "e": "egg", "w": "wheat"}))
    found.append(_shaped("iron_block", ["iii", "iii", "iii"], {"i": "iron_ingot"}))
    found.append(_shaped("golden_apple", ["ggg", "gag", "ggg"], {"g": "gold_ingot", "a": "apple"}))
    found.append(_shapeless("iron_ingot", {"iron_block": 1}, 9))
    found.append(_shapeless("sugar", {"sugar_cane": 1}))
    found.append(_shapeless("flint_and_steel", {"iron_ingot": 1, "flint": 1}))
    found.append(_shapeless("packed_ice", {"ice": 9}))
    return found


def write_recipes(root: Path, *, version: str = "1.16.5", items: list[dict] | None = None) -> Path:
    """A data root with a `minecraft` folder; returns the root."""
    folder = root / "minecraft"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": f"r{number}", **recipe}) for number, recipe in enumerate(recipes())]
    (folder / f"recipes_{version}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if items is not None:
        text = "".join(json.dumps(item) + "\n" for item in items)
        (folder / f"items_{version}.jsonl").write_text(text, encoding="utf-8")
    return root


def small_world(root: Path) -> World:
    return load_world(write_recipes(root))
