from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground_minecraft.names import Names
from reground_minecraft.parser import Goal, PlanStep, parse_plan, render_plan
from reground_minecraft.simulator import Planner, simulate
from reground_minecraft.world import load_world
from tests.data import need_data
from tests.minecraft.small import small_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return small_world(tmp_path_factory.mktemp("small"))


def run(world, target, *items, count=1):
    text = "\n".join(f"STEP {number}: - Minecraft items: {item}" for number, item in enumerate(items, start=1))
    return simulate(parse_plan(text), target, world=world, names=Names(world), count=count)


WOODEN = ("3x Oak Log", "12x Oak Planks", "1x Crafting Table", "4x Stick", "1x Wooden Pickaxe")
STONE = (*WOODEN, "3x Cobblestone", "1x Stone Pickaxe")


def test_a_good_plan_is_executable(world):
    outcome = run(world, "stone_pickaxe", *STONE)
    assert outcome.executable
    assert (outcome.why, outcome.step) == ("", None)
    assert outcome.inventory == {"oak_planks": 3, "crafting_table": 1, "wooden_pickaxe": 1, "stone_pickaxe": 1}
    assert "stick" in outcome.obtained


@pytest.mark.parametrize(
    ("plan", "step", "why"),
    [
        (WOODEN[:3] + WOODEN[4:], 4, "step 4: wooden_pickaxe needs 2 stick, have 0"),
        (("1x Oak Log", "4x Oak Planks", "4x Stick", "1x Crafting Table"), 4, "4 planks of any kind, have 2"),
        (WOODEN[:2] + WOODEN[3:], 4, "step 4: wooden_pickaxe needs crafting_table to be held"),
        (("1x Cobblestone",), 1, "step 1: cobblestone needs wooden_pickaxe or better to be held"),
        (("1x Ice",), 1, "step 1: ice cannot be obtained: no recipe or source of it is known"),
        (("1x Oak Lag",), 1, "no item is called 'Oak Lag'; did you mean oak_log"),
        (("1x Qzqzqz",), 1, "step 1: no item is called 'Qzqzqz'"),
        ((*WOODEN, "3x Cobblestone", "1x Iron Ore"), 7, "iron_ore needs stone_pickaxe or better to be held"),
        ((*STONE, "1x Iron Ore", "1x Iron Ingot"), 9, "iron_ingot needs furnace"),
    ],
)
def test_the_first_failing_step_and_the_reason(world, plan, step, why):
    outcome = run(world, "stone_pickaxe", *plan)
    assert not outcome.executable
    assert outcome.step == step
    assert why in outcome.why


OAK, TABLE = ("3x Oak Log", "12x Oak Planks"), "1x Crafting Table"
BIRCH, BOAT = ("1x Birch Log", "4x Birch Planks"), (TABLE, "1x Birch Boat")
PLANS = {
    "a text without items is no plan": ("stick", 1, ("None",), False),
    "the target must still be there in the end": ("oak_planks", 1, ("1x Oak Log", "4x Oak Planks", TABLE), False),
    "a count means so many more": ("oak_planks", 8, ("1x Oak Log", "1x Oak Log", "8x Oak Planks"), True),
    "and not less": ("oak_planks", 1, ("1x Oak Log", "4x Oak Planks", "8x Oak Planks"), False),
    "naming again what is held changes nothing": ("chest", 1, (*OAK, TABLE, TABLE, "1x Chest"), True),
    "inputs may be listed": ("wooden_pickaxe", 1, (*WOODEN[:4], "3x Oak Planks, 2x Stick, 1x Wooden Pickaxe"), True),
    "woods mix": ("chest", 1, ("3x Oak Log", "8x Oak Planks", *BIRCH, TABLE, "1x Chest"), True),
    "the wood is chosen ahead": ("birch_boat", 1, ("1x Oak Log", "4x Oak Planks", *BIRCH, *BIRCH, *BOAT), True),
    "in any order": ("birch_boat", 1, ("2x Birch Log", "8x Birch Planks", "1x Oak Log", "4x Oak Planks", *BOAT), True),
    "and finds too little": ("birch_boat", 1, ("2x Oak Log", "5x Oak Planks", *BIRCH, *BOAT), False),
    "family names follow the wood that is named": ("acacia_boat", 1, ("3x Logs", "12x Planks", TABLE, "1x Boat"), True),
    "any family does": ("chest", 1, ("3x Logs", "12x Wood Planks", TABLE, "1x Chest"), True),
    "another wood does not": ("acacia_boat", 1, (*OAK, TABLE, "1x Acacia Boat"), False),
    "stone that is mined is cobblestone": ("stone_pickaxe", 1, (*WOODEN, "3x Stone", "1x Stone Pickaxe"), True),
    "two items joined by and": ("chest", 1, (*OAK, "1x Crafting Table and Chest"), True),
    "very many choices end": ("packed_ice", 1, ("1x Logs", "1x Oak Log", "2x Planks", "1x Stick") * 60, False),
}  # fmt: skip


@pytest.mark.parametrize("rule", PLANS)
def test_what_makes_a_plan_executable(world, rule):
    target, count, plan, executable = PLANS[rule]
    assert run(world, target, *plan, count=count).executable == executable


def test_a_plan_has_to_end_with_the_target(world):
    outcome = run(world, "chest", *WOODEN)
    assert (outcome.executable, outcome.step) == (False, None)
    assert outcome.why == "the plan ends without chest: have 0, need 1"
    assert run(world, "stick").why == "the plan names no Minecraft item that a step obtains"


def test_whole_batches_are_made_and_the_surplus_kept(world):
    outcome = run(world, "stick", "2x Oak Log", "5x Oak Planks", "3x Stick")
    assert outcome.inventory == {"oak_planks": 6, "stick": 4}


def test_containers_come_back_from_crafting(world):
    iron = (*WOODEN, "11x Cobblestone", "1x Furnace", "1x Stone Pickaxe", "9x Iron Ore", "9x Iron Ingots")
    cake = ("3x Bucket", "3x Milk", "1x Egg", "3x Wheat", "2x Sugar Cane", "2x Sugar", "1x Cake")
    outcome = run(world, "cake", *iron, *cake)
    assert outcome.executable
    assert outcome.inventory["bucket"] == 3 and "milk_bucket" not in outcome.inventory


def test_prose_that_names_no_item_is_passed_over(world):
    text = "STEP 1: Find a nice place.\nSTEP 2: Collect yourself.\nSTEP 3: Chop 1 oak log."
    assert simulate(parse_plan(text), "oak_log", world=world, names=Names(world)).executable


@cache
def planner(version):
    return Planner(load_world(need_data("minecraft").parent, version=version))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return Planner(small_world(tmp_path_factory.mktemp("small")))


def accepted(planner, plan, target, count=1):
    return simulate(plan, target, world=planner.world, names=planner.names, count=count)


def check_sound_and_minimal(planner, target, count=1):
    """The plan works, reads back from its text, and works no more with any step gone or any batch less."""
    plan = planner.plan(target, count)
    assert accepted(planner, plan, target, count).executable
    assert parse_plan(render_plan(plan)) == plan
    for index, step in enumerate(plan):
        (goal,) = step.goals
        without = plan[:index] + plan[index + 1 :]
        assert not accepted(planner, without, target, count).executable, f"{goal} can be left out"
        item = planner.names.resolve(goal.name).items[0]
        batch = min(way.gives for way in planner.world.ways[item])
        if goal.count > batch:
            fewer = PlanStep(
                step.number, (Goal(goal.name, goal.count - max(way.gives for way in planner.world.ways[item])),)
            )
            if fewer.goals[0].count > 0:
                changed = [*plan[:index], fewer, *plan[index + 1 :]]
                assert not accepted(planner, changed, target, count).executable, f"{fewer} is enough"


def test_a_diamond_pickaxe_in_the_small_world(small):
    plan = small.plan("diamond_pickaxe")
    found = [f"{step.goals[0].count} {small.names.resolve(step.goals[0].name).items[0]}" for step in plan]
    assert ", ".join(found) == (
        "3 oak_log, 12 oak_planks, 1 crafting_table, 8 stick, 1 wooden_pickaxe, 11 cobblestone, 1 furnace, "
        "1 stone_pickaxe, 3 iron_ore, 3 iron_ingot, 1 iron_pickaxe, 3 diamond, 1 diamond_pickaxe"
    )


def test_every_item_of_the_small_world_has_a_sound_and_minimal_plan(small):
    for item in sorted(small.world.reachable & set(small.world.ways)):
        check_sound_and_minimal(small, item)


def test_the_plan_stays_with_the_wood_of_its_target(small):
    names = [step.goals[0].name for step in small.plan("acacia_boat")]
    assert names == ["Acacia Log", "Acacia Planks", "Crafting Table", "Acacia Boat"]


def test_a_tool_that_is_also_an_ingredient_is_made_once(small):
    furnaces = [step.goals[0] for step in small.plan("blast_furnace") if step.goals[0].name == "Furnace"]
    assert furnaces == [Goal("Furnace", 1)]


def test_steps_say_what_to_do(small):
    texts = [step.text for step in small.plan("stone_pickaxe")]
    assert texts[0] == "Chop oak trees."
    assert texts[-2:] == [
        "Mine stone with a wooden pickaxe.",
        "Craft stone pickaxe from 3 cobblestone and 2 stick with the crafting table.",
    ]


def test_an_unreachable_item_is_refused(small):
    with pytest.raises(ConfigurationError, match="packed_ice cannot be obtained"):
        small.plan("packed_ice")


@settings(max_examples=60)
@given(st.data())
def test_any_reachable_item_of_the_real_game_has_a_sound_and_minimal_plan(data):
    chosen = planner(data.draw(st.sampled_from(["1.16.5", "1.19"])))
    target = data.draw(st.sampled_from(sorted(chosen.world.reachable)))
    check_sound_and_minimal(chosen, target, data.draw(st.integers(1, 5)))


@settings(max_examples=60)
@given(st.data())
def test_what_the_simulator_accepts_holds_by_the_raw_recipes(data):
    """Replays the simulator's own account with nothing but counting: no item from nowhere, every tool at hand."""
    chosen = planner("1.16.5")
    target = data.draw(st.sampled_from(sorted(chosen.world.reachable)))
    held = {}
    for result in accepted(chosen, chosen.plan(target), target).results:
        assert result.way in chosen.world.ways[result.item]
        for group in result.way.tools:
            assert any(held.get(tool, 0) > 0 for tool in group)
        allowed = {item for slot in result.way.uses for item in slot.items}
        assert set(result.ingredients) <= allowed
        assert sum(result.ingredients.values()) == result.times * sum(slot.count for slot in result.way.uses)
        for item, number in result.ingredients.items():
            held[item] = held.get(item, 0) - number
            assert held[item] >= 0
        for item, number in {**result.way.left_over(result.ingredients)}.items():
            held[item] = held.get(item, 0) + number
        held[result.item] = held.get(result.item, 0) + result.times * result.way.gives
    assert held[target] >= 1
