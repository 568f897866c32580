import pytest

from reground_minecraft.names import Names
from reground_minecraft.world import load_world
from tests.data import need_data
from tests.minecraft.small import small_world


@pytest.fixture(scope="module")
def names():
    return Names(load_world(need_data("minecraft").parent))


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("Oak Logs", "oak_log"),
        ("minecraft:oak_log", "oak_log"),
        ("oak wood planks", "oak_planks"),
        ("an Oak Plank", "oak_planks"),
        ("Sticks", "stick"),
        ("torches", "torch"),
        ("Bookshelves", "bookshelf"),
        ("Iron Ores", "iron_ore"),
        ("Raw Iron", "iron_ore"),
        ("Block of Iron", "iron_block"),
        ("blocks of iron", "iron_block"),
        ("blocks of dirt", "dirt"),
        ("Wood Pickaxe", "wooden_pickaxe"),
        ("Gold Pickaxe", "golden_pickaxe"),
        ("workbench", "crafting_table"),
        ("Redstone Dust", "redstone"),
        ("Steak", "cooked_beef"),
        ("Raw Beef", "beef"),
        ("slime balls", "slime_ball"),
        ("Slimeball", "slime_ball"),
        ("Nether Quartz", "quartz"),
        ("Jack o'Lantern", "jack_o_lantern"),
        ("flint and steel", "flint_and_steel"),
        ("ladies", None),
        ("Oak tree", "oak_log"),
        ("stone brick", "stone_bricks"),
        ("gold nuggets", "gold_nugget"),
        ("berries", None),
        ("Sweet Berry", "sweet_berries"),
    ],
)
def test_common_spellings(names, said, first):
    assert (names.resolve(said).items or (None,))[0] == first


def test_a_family_name_means_any_of_the_family(names):
    assert names.resolve("logs").items[0] == "oak_log"
    assert "crimson_stem" in names.resolve("log").items
    assert names.resolve("planks").items[:2] == ("oak_planks", "spruce_planks")
    assert names.resolve("wooden door").items[0] == "oak_door"
    assert names.resolve("bed").items[0] == "white_bed"
    assert len(names.resolve("wool").items) == 16
    assert "poppy" in names.resolve("red flower").items


def test_an_item_and_what_it_may_stand_for(names):
    assert names.resolve("stone").items == ("stone", "cobblestone")
    assert names.resolve("diamond ore").items == ("diamond_ore", "diamond")
    assert names.resolve("oak wood").items == ("oak_wood", "oak_log")


def test_an_unknown_name_gets_suggestions(names):
    found = names.resolve("wooden pickaxx")
    assert found.items == ()
    assert "wooden_pickaxe" in found.suggestions
    assert names.resolve("qqqqqq").suggestions == ()


def test_every_display_name_resolves_to_its_item(names):
    world = load_world(need_data("minecraft").parent)
    wrong = {item: names.display(item) for item in world.items if names.resolve(names.display(item)).items[0] != item}
    assert wrong == {}


def test_a_shared_display_name_is_replaced_by_the_identifier(names):
    assert names.display("mojang_banner_pattern") == "Mojang Banner Pattern"


def test_families_keep_to_the_version(tmp_path):
    assert Names(small_world(tmp_path)).resolve("planks").items[-1] != "bamboo_planks"
