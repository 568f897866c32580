import json

import pytest

from reground.core.errors import DataError
from reground_minecraft.corpus import write_corpus
from tests.data import need_data
from tests.minecraft.small import write_recipes


@pytest.fixture(scope="module")
def articles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    out = folder / "deep" / "corpus.jsonl"
    number = write_corpus(write_recipes(folder), out)
    found = {article["id"]: article for article in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    assert number == len(found)
    assert list(out.parent.iterdir()) == [out]
    return found


def test_crafting_says_what_how_many_and_where(articles):
    assert articles["stick"]["title"] == "Stick"
    assert (
        "Recipe for 4 stick: 2 oak planks or birch planks or acacia planks, crafted in the 2x2 grid"
        in articles["stick"]["text"]
    )
    assert "8 oak planks or birch planks or acacia planks, crafted at a crafting table" in articles["chest"]["text"]


def test_mining_says_which_tool(articles):
    assert "mine stone. This needs a wooden pickaxe or a better pickaxe." in articles["cobblestone"]["text"]
    assert "No tool is needed." in articles["oak_log"]["text"]
    assert "This needs 1 bucket." in articles["milk_bucket"]["text"]
    assert "This needs shears." in articles["cobweb"]["text"]
    assert "This needs any shovel." not in articles["oak_log"]["text"]


def test_smelting_says_the_station(articles):
    assert "Smelting 1 iron ore in a furnace or a blast furnace gives 1 iron ingot." in articles["iron_ingot"]["text"]


def test_uses_and_dead_ends_are_told(articles):
    assert "Iron Ingot is used to make" in articles["iron_ingot"]["text"]
    assert "cannot be obtained in survival mode" in articles["ice"]["text"]
    assert "Gathering diamond, redstone" in articles["tools"]["text"]


def test_nine_woods_become_any_kind(tmp_path):
    out = tmp_path / "corpus.jsonl"
    assert write_corpus(need_data("minecraft").parent, out, version="1.19") > 900
    found = {
        article["id"]: article["text"] for article in map(json.loads, out.read_text(encoding="utf-8").splitlines())
    }
    assert "4 planks of any kind (such as oak planks)" in found["crafting_table"]
    assert (
        "A smithing table upgrades 1 diamond sword and 1 netherite ingot to 1 netherite sword."
        in found["netherite_sword"]
    )
    assert max(map(len, found.values())) < 4000


def test_without_recipes_there_is_no_corpus(tmp_path):
    with pytest.raises(DataError, match="recipes_1"):
        write_corpus(tmp_path, tmp_path / "corpus.jsonl")
    assert not (tmp_path / "corpus.jsonl").exists()
