from __future__ import annotations

import json

import pytest

from reground.core.errors import DataError
from reground_minecraft import world as game
from reground_minecraft.names import Names
from reground_minecraft.world import Slot, load_world
from tests.data import need_data
from tests.minecraft.small import recipes, small_world, write_recipes


def test_variants_of_one_recipe_become_one_way_with_alternatives(tmp_path):
    (way,) = small_world(tmp_path).ways["crafting_table"]
    assert way.uses == (Slot(("oak_planks", "birch_planks", "acacia_planks"), 4),)
    assert way.tools == ()
    (way,) = [way for way in small_world(tmp_path).ways["birch_planks"] if way.kind == "craft"]
    assert (way.uses, way.gives) == ((Slot(("birch_log", "birch_wood"), 1),), 4)


def test_recipes_beyond_two_by_two_need_a_crafting_table(tmp_path):
    ways = small_world(tmp_path).ways
    assert ways["chest"][0].tools == (("crafting_table",),)
    assert ways["flint_and_steel"][0].tools == ()
    assert ways["packed_ice"][0].tools == (("crafting_table",),)


def test_the_given_flag_wins_over_the_pattern(tmp_path):
    root = write_recipes(tmp_path)
    path = root / "minecraft" / "recipes_1.16.5.jsonl"
    recipe = {"result": "stick", "count": 4, "ingredients": {"oak_planks": 2}, "needs_crafting_table": True}
    path.write_text(f"{json.dumps(recipe)}\n{path.read_text()}")
    (way, *_) = load_world(root).ways["stick"]
    assert way.tools == (("crafting_table",),)


def test_variants_that_are_not_every_combination_stay_apart(tmp_path):
    lines = [
        {"result": "x", "count": 1, "ingredients": {"a": 1, "c": 1}, "pattern": [["a", "c"]]},
        {"result": "x", "count": 1, "ingredients": {"b": 1, "d": 1}, "pattern": [["b", "d"]]},
    ]
    (tmp_path / "minecraft").mkdir()
    (tmp_path / "minecraft" / "recipes_1.16.5.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ways = load_world(tmp_path).ways["x"]
    assert [way.uses for way in ways] == [(Slot(("a",), 1), Slot(("c",), 1)), (Slot(("b",), 1), Slot(("d",), 1))]


def test_what_nothing_gives_is_not_reachable(tmp_path):
    world = small_world(tmp_path)
    assert {"diamond_pickaxe", "cake", "golden_apple"} <= world.reachable
    assert "packed_ice" not in world.reachable
    assert "ice" in set(world.display)


def test_the_items_file_decides_what_exists_and_how_it_is_shown(tmp_path):
    items = [{"name": "oak_log", "displayName": "Oak Log"}, {"name": "oak_planks"}, {"name": "stick"}]
    world = load_world(write_recipes(tmp_path, items=items))
    assert world.display == {"oak_log": "Oak Log", "oak_planks": "Oak Planks", "stick": "Stick"}
    assert world.reachable == {"oak_log", "oak_planks", "stick"}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("{}", "'result' is missing"),
        ('{"result": "x", "count": 0, "ingredients": {"a": 1}}', "count is unusable"),
        ('{"result": "x", "ingredients": {}}', "ingredients is unusable"),
        ('{"result": "x", "ingredients": {"a": 0}}', "ingredients.a is unusable"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, complaint):
    (tmp_path / "minecraft").mkdir()
    good = json.dumps(recipes()[0])
    (tmp_path / "minecraft" / "recipes_1.16.5.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(DataError, match=rf"jsonl:2: .*{complaint}"):
        load_world(tmp_path)


def test_an_empty_file_and_a_malformed_item_are_refused(tmp_path):
    root = write_recipes(tmp_path, items=[{"name": []}])
    with pytest.raises(DataError, match=r"items_1\.16\.5\.jsonl:1: the field name is unusable"):
        load_world(root)
    (root / "minecraft" / "recipes_1.16.5.jsonl").write_text("\n")
    with pytest.raises(DataError, match="no recipe"):
        load_world(root)


@pytest.mark.parametrize(("version", "at_least"), [("1.16.5", 780), ("1.19", 920)])
def test_most_items_of_the_real_game_are_reachable(version, at_least):
    world = load_world(need_data("minecraft").parent, version=version)
    assert len(world.reachable) >= at_least
    assert not {"bedrock", "ice", "command_block", "zombie_spawn_egg"} & world.reachable
    assert world.reachable <= set(world.display)


def test_ores_drop_themselves_before_1_17_and_raw_metal_since():
    data = need_data("minecraft").parent
    old, new = load_world(data), load_world(data, version="1.19")
    assert "iron_ore" in old.reachable and "raw_iron" not in old.display
    assert "raw_iron" in new.reachable and "iron_ore" not in new.reachable


def test_every_item_of_the_rules_exists_in_one_of_the_versions():
    data = need_data("minecraft").parent
    known = load_world(data).display.keys() | load_world(data, version="1.19").display.keys()
    named = set(game.sources(raw_metals=True)) | {way.item for way in game.smelting()}
    assert named - known == {"mangrove_sapling", "turtle_scute"}


SPELLINGS = {
    "Oak Logs": "oak_log", "minecraft:oak_log": "oak_log", "oak wood planks": "oak_planks",
    "an Oak Plank": "oak_planks", "Sticks": "stick", "torches": "torch", "Bookshelves": "bookshelf",
    "Iron Ores": "iron_ore", "Raw Iron": "iron_ore", "Block of Iron": "iron_block", "blocks of iron": "iron_block",
    "blocks of dirt": "dirt", "Wood Pickaxe": "wooden_pickaxe", "Gold Pickaxe": "golden_pickaxe",
    "workbench": "crafting_table", "Redstone Dust": "redstone", "Steak": "cooked_beef", "Raw Beef": "beef",
    "slime balls": "slime_ball", "Slimeball": "slime_ball", "Nether Quartz": "quartz",
    "Jack o'Lantern": "jack_o_lantern", "flint and steel": "flint_and_steel", "ladies": None, "Oak tree": "oak_log",
    "stone brick": "stone_bricks", "gold nuggets": "gold_nugget", "berries": None, "Sweet Berry": "sweet_berries",
}  # fmt: skip


@pytest.fixture(scope="module")
def names():
    return Names(load_world(need_data("minecraft").parent))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_common_spellings(names, spelling):
    assert (names.resolve(spelling).items or (None,))[0] == SPELLINGS[spelling]


def test_a_family_name_means_any_of_the_family(names):
    assert names.resolve("logs").items[0] == "oak_log"
    assert "crimson_stem" in names.resolve("log").items
    assert names.resolve("planks").items[:2] == ("oak_planks", "spruce_planks")
    assert names.resolve("wooden door").items[0] == "oak_door"
    assert names.resolve("bed").items[0] == "white_bed"
    assert len(names.resolve("wool").items) == 16
    assert "poppy" in names.resolve("red flower").items
    assert names.resolve("stone").items == ("stone", "cobblestone"), "and an item what it may stand for"
    assert names.resolve("oak wood").items == ("oak_wood", "oak_log")


def test_an_unknown_name_gets_suggestions(names):
    found = names.resolve("wooden pickaxx")
    assert found.items == ()
    assert "wooden_pickaxe" in found.suggestions
    assert names.resolve("qqqqqq").suggestions == ()


def test_every_display_name_resolves_to_its_item(names):
    world = load_world(need_data("minecraft").parent)
    wrong = {item: names.display(item) for item in world.display if names.resolve(names.display(item)).items[0] != item}
    assert wrong == {}


def test_a_shared_display_name_is_replaced_by_the_identifier(names):
    assert names.display("mojang_banner_pattern") == "Mojang Banner Pattern"


def test_families_keep_to_the_version(tmp_path):
    assert Names(small_world(tmp_path)).resolve("planks").items[-1] != "bamboo_planks"
