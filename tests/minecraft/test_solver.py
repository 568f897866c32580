from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground_minecraft.parser import Goal, PlanStep, parse_plan, render_plan
from reground_minecraft.simulator import simulate
from reground_minecraft.solver import Planner, join_words
from reground_minecraft.world import load_world
from tests.data import need_data
from tests.minecraft.small import small_world


@cache
def planner(version, fuel=False):
    return Planner(load_world(need_data("minecraft").parent, version=version, fuel=fuel))


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
    assert [(small.names.resolve(step.goals[0].name).items[0], step.goals[0].count) for step in plan] == [
        ("oak_log", 3),
        ("oak_planks", 12),
        ("crafting_table", 1),
        ("stick", 8),
        ("wooden_pickaxe", 1),
        ("cobblestone", 11),
        ("furnace", 1),
        ("stone_pickaxe", 1),
        ("iron_ore", 3),
        ("iron_ingot", 3),
        ("iron_pickaxe", 1),
        ("diamond", 3),
        ("diamond_pickaxe", 1),
    ]


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


@pytest.mark.parametrize(
    ("words", "joined"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_lists_in_sentences(words, joined):
    assert join_words(words) == joined


@settings(max_examples=60)
@given(st.data())
def test_any_reachable_item_of_the_real_game_has_a_sound_and_minimal_plan(data):
    chosen = planner(data.draw(st.sampled_from(["1.16.5", "1.19"])))
    target = data.draw(st.sampled_from(sorted(chosen.world.reachable)))
    check_sound_and_minimal(chosen, target, data.draw(st.integers(1, 5)))


@settings(max_examples=15)
@given(st.data())
def test_with_fuel_too(data):
    chosen = planner("1.16.5", fuel=True)
    check_sound_and_minimal(chosen, data.draw(st.sampled_from(sorted(chosen.world.reachable))))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.16.5", "1.19"])
def test_every_reachable_item_has_a_plan_that_reads_back_and_is_accepted(version):
    chosen = planner(version)
    for item in sorted(chosen.world.reachable):
        plan = chosen.plan(item)
        assert parse_plan(render_plan(plan)) == plan, item
        assert accepted(chosen, plan, item).executable, item


@settings(max_examples=60)
@given(st.data())
def test_what_the_simulator_accepts_holds_by_the_raw_recipes(data):
    """Replays the simulator's own account with nothing but counting: no item from nowhere, every tool at hand."""
    chosen = planner("1.16.5")
    target = data.draw(st.sampled_from(sorted(chosen.world.reachable)))
    held = {}
    for done in accepted(chosen, chosen.plan(target), target).done:
        assert done.way in chosen.world.ways[done.item]
        for group in done.way.tools:
            assert any(held.get(tool, 0) > 0 for tool in group)
        allowed = {item for slot in done.way.uses for item in slot.items}
        assert set(done.used) <= allowed
        assert sum(done.used.values()) == done.times * sum(slot.count for slot in done.way.uses)
        for item, number in done.used.items():
            held[item] = held.get(item, 0) - number
            assert held[item] >= 0
        for item, number in {**done.way.left_over(done.used)}.items():
            held[item] = held.get(item, 0) + number
        held[done.item] = held.get(done.item, 0) + done.times * done.way.gives
    assert held[target] >= 1
