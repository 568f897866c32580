import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground_minecraft.parser import Goal, PlanStep, parse_plan, readable_plan, render_plan


def goals(text):
    return [[(goal.name, goal.count) for goal in step.goals] for step in parse_plan(text)]


def one(text):
    (step,) = goals(f"STEP 1: Do it.\n- Minecraft items: {text}")
    return step


ITEM_LINES = {
    "4x Stick": [("Stick", 4)], "4 x Stick": [("Stick", 4)], "4 Sticks": [("Sticks", 4)], "x4 Stick": [("Stick", 4)],
    "Stick x4": [("Stick", 4)], "Stick (4)": [("Stick", 4)], "Stick (x4)": [("Stick", 4)], "Stick: 4": [("Stick", 4)],
    "four sticks": [("sticks", 4)], "a crafting table": [("crafting table", 1)],
    "Wooden Pickaxe": [("Wooden Pickaxe", 1)], "**1x Furnace**.": [("Furnace", 1)], "`oak_log` x 3": [("oak_log", 3)],
    "at least 4 Oak Logs": [("Oak Logs", 4)], "4x Stick, 1x Crafting Table": [("Stick", 4), ("Crafting Table", 1)],
    "4x Stick and 2x Torch": [("Stick", 4), ("Torch", 2)],
    "4x Stick and a Crafting Table": [("Stick", 4), ("Crafting Table", 1)],
    "1x Flint and Steel": [("Flint and Steel", 1)], "3x Iron Ore (or Raw Iron)": [("Iron Ore", 3)],
    "4x Oak Log or Birch Log": [("Oak Log", 4)], "2x Oak Planks -> 4x Stick": [("Stick", 4)],
    "1x Music Disc 13": [("Music Disc 13", 1)], "1x Empty Map": [("Empty Map", 1)],
    "4x Oak Log [1][2, 3].": [("Oak Log", 4)], "1x Chest (8x Oak Planks, 1x Stick)": [("Chest", 1)],
    "Chest, 2": [("Chest", 2)], '{"oak_log": 3}': [("oak_log", 3)], "None": [], "N/A": [], "Empty Inventory": [],
    "0x Stick": [], "": [],
}  # fmt: skip


@pytest.mark.parametrize("text", ITEM_LINES)
def test_item_lines(text):
    assert one(text) == ITEM_LINES[text]


PLANS = {
    "STEP 1: Punch. - Minecraft item: 4x Logs\n\nSTEP 2: Place the table.\n\nSTEP 3: x - Minecraft items: 2x Stick":
        [[("Logs", 4)], [], [("Stick", 2)]],
    "Step 1:\nItem: Acacia Log\nQuantity: 3\nPlan: Break 5 acacia logs.\n\nStep 2:\nItem: Empty hands\nPlan: look":
        [[("Acacia Log", 3)], []],
    "STEP 1: Craft planks.\nObject Minecraft item: Oak Planks, Number: 12": [[("Oak Planks", 12)]],
    "STEP 1: Mine.\nObject: Cobblestone | Quantity: 3": [[("Cobblestone", 3)]],
    "STEP 1: Craft\n- Minecraft items:\n  - 4x Stick\n  - 1x Chest\n": [[("Stick", 4), ("Chest", 1)]],
    # materials and tools are not obtained
    "STEP 1: x\n- Items needed: 3x Oak Planks, 2x Stick\n- Tools: Crafting Table\n- Minecraft item: 1x Wooden Pickaxe":
        [[("Wooden Pickaxe", 1)]],
    "STEP 1: a - Minecraft items: 1x Oak Log STEP 2: b - Minecraft items: 4x Oak Planks":
        [[("Oak Log", 1)], [("Oak Planks", 4)]],
    "1. Chop - Minecraft items: 1x Oak Log\n2. Craft - Minecraft items: 4x Oak Planks":
        [[("Oak Log", 1)], [("Oak Planks", 4)]],
    # the last of several plans is meant
    "STEP 1: a - Minecraft items: 1x Dirt\nSTEP 2: b - Minecraft items: 2x Dirt\nRevised:\n"
    "STEP 1: a - Minecraft items: 1x Oak Log\nSTEP 2: b - Minecraft items: 4x Oak Planks\n":
        [[("Oak Log", 1)], [("Oak Planks", 4)]],
    "STEP 1: a - Minecraft items: 1x Dirt\nSTEP 1: b - Minecraft items: 2x Sand": [[("Dirt", 1)], [("Sand", 2)]],
    # closing words are no step
    "STEP 1: Chop. - Minecraft items: 1x Oak Log\n\nCongratulations! You have 5x diamonds.": [[("Oak Log", 1)]],
    "no plan here": [], "": [], "\n\n": [], "STEP": [], "Items: 4x Stick": [],
}  # fmt: skip


@pytest.mark.parametrize("text", PLANS)
def test_plans(text):
    assert goals(text) == PLANS[text]


@pytest.mark.parametrize(
    "head", ["STEP 1:", "Step 1.", "**STEP 1:**", "### Step 1", "STEP 1 -", "- **Step 1:**", "step 1)", "STEP #1:"]
)
def test_headings(head):
    assert goals(f"Here is the plan.\n{head} Chop.\n- Minecraft item: 2x Oak Log") == [[("Oak Log", 2)]]


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ("Mine 3 iron ore with a stone pickaxe.", [("iron ore", 3)]),
        ("Craft 4 oak planks into a crafting table.", [("crafting table", 1)]),
        ("Use the table to craft a wooden pickaxe.", [("wooden pickaxe", 1)]),
        ("Craft planks, 4x Oak Planks", [("Oak Planks", 4)]),
        ("1 oak log -> 4 oak planks", [("oak planks", 4)]),
        ("Place the crafting table.", []),
        ("Oak Log x3", [("Oak Log", 3)]),
        ("3x Oak Log", [("Oak Log", 3)]),
    ],
)
def test_prose_without_an_item_line_is_read_and_marked_uncertain(prose, expected):
    (step,) = parse_plan(f"STEP 1: {prose}")
    assert [(goal.name, goal.count) for goal in step.goals] == expected
    assert not step.certain


def test_rendering_names_an_empty_step():
    assert render_plan([PlanStep(1)]) == "STEP 1: Look around."


_WORDS = ["Oak", "Log", "Iron", "Pickaxe", "Block", "Of", "Stick", "Redstone", "Torch", "Empty", "Map", "Steel"]
_NAME = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=3).map(" ".join).filter(lambda name: name != "Empty")


@given(st.lists(st.lists(st.builds(Goal, _NAME, st.integers(1, 9999)), min_size=1, max_size=3), max_size=8))
def test_a_rendered_plan_reads_back(plan):
    steps = [PlanStep(number, tuple(wanted)) for number, wanted in enumerate(plan, start=1)]
    assert parse_plan(render_plan(steps)) == steps


_FRAGMENTS = [
    "STEP 1:", "STEP 2", "- ", "Minecraft items:", "Item: ", "4x", "Stick", ",", " and ", "(", ")", "\n", "x3", ": ",
]  # fmt: skip


@given(
    st.lists(
        st.sampled_from([*_FRAGMENTS, "Quantity: 0", "[1]", "->", "craft ", "**", "/", "99999"]) | st.text(max_size=3),
        max_size=25,
    ).map("".join)
)
def test_any_text_parses(text):
    for step in parse_plan(text):
        assert all(goal.count >= 1 and goal.name.strip() for goal in step.goals)


def test_a_plan_is_read_one_step_a_line_with_all_its_words():
    text = (
        "Here is the plan.\n\n**STEP 1:** Chop a tree.\n- Minecraft items: 1x Oak Log [1]\n\nSTEP 2: Open the inventory"
        "\nand craft planks.\n\n- Minecraft items: 4x Oak Planks\n\nThat is it!\n\nHave fun."
    )
    assert readable_plan(text) == (
        "STEP 1: Chop a tree. - Minecraft items: 1x Oak Log\n"
        "STEP 2: Open the inventory and craft planks. - Minecraft items: 4x Oak Planks\n"
        "That is it! Have fun."
    )
    assert readable_plan("STEP 1: a\nSTEP 2: b\n\nAgain:\n\nSTEP 1: c\nSTEP 2:") == "STEP 1: c\nSTEP 2"
    assert readable_plan("1. Chop a tree.\n2. 3 planks") == "STEP 1: Chop a tree.\nSTEP 2: 3 planks"
    assert readable_plan(" I do not know.\n") == "I do not know."


@given(st.lists(st.lists(st.builds(Goal, st.sampled_from(["Oak Log", "Stick"]), st.integers(1, 64))), min_size=2))
def test_a_readable_plan_is_the_same_plan(each):
    plan = [PlanStep(number, tuple(found), text="Go on") for number, found in enumerate(each, start=1)]
    written = render_plan(plan)
    assert readable_plan(written) == written
    assert parse_plan(readable_plan(written.replace(" - Minecraft", "\n- Minecraft"))) == parse_plan(written)
