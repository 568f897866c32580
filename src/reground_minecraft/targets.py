"""The benchmark's targets: the project's own list, by group, from items of two steps to diamond tools."""

from __future__ import annotations

_ITEMS = {
    "wood": """
        oak_planks acacia_planks stick crafting_table wooden_pickaxe wooden_axe wooden_sword wooden_shovel
        wooden_hoe chest bowl acacia_boat birch_boat oak_door spruce_door jungle_fence dark_oak_fence_gate
        birch_stairs oak_slab spruce_trapdoor acacia_button oak_sign barrel oak_pressure_plate
    """,
    "stone": """
        cobblestone stone_pickaxe stone_axe stone_sword stone_shovel furnace lever stone stone_bricks
        cobblestone_wall cobblestone_stairs stone_button smooth_stone torch campfire smoker stone_brick_stairs
        charcoal
    """,
    "iron": """
        iron_ingot iron_pickaxe iron_axe iron_sword iron_shovel iron_hoe iron_helmet iron_chestplate
        iron_leggings iron_boots bucket water_bucket lava_bucket shears shield flint_and_steel minecart chain
        lantern iron_door iron_trapdoor cauldron anvil hopper rail blast_furnace smithing_table stonecutter
        tripwire_hook crossbow grindstone
    """,
    "gold": """
        gold_ingot golden_pickaxe golden_sword golden_helmet clock powered_rail golden_apple golden_carrot
        light_weighted_pressure_plate
    """,
    "diamond": """
        diamond diamond_pickaxe diamond_axe diamond_sword diamond_shovel diamond_hoe diamond_helmet
        diamond_chestplate diamond_leggings diamond_boots jukebox obsidian enchanting_table
    """,
    "redstone": """
        redstone redstone_torch repeater piston sticky_piston dropper dispenser note_block compass target tnt
        comparator observer activator_rail detector_rail
    """,
    "food": """
        bread cookie cake sugar mushroom_stew pumpkin_pie cooked_beef cooked_chicken baked_potato beetroot_soup
        rabbit_stew dried_kelp
    """,
    "decoration": """
        painting item_frame flower_pot white_bed orange_bed red_wool blue_carpet yellow_banner glass_pane
        bookshelf armor_stand jack_o_lantern lime_stained_glass white_concrete_powder book map loom scaffolding
    """,
    "equipment": """
        bow arrow fishing_rod leather_boots leather_chestplate lead composter carrot_on_a_stick spectral_arrow
        ender_eye
    """,
}
TARGETS: dict[str, tuple[str, ...]] = {group: tuple(items.split()) for group, items in _ITEMS.items()}

DEMONSTRATED = ("ladder", "iron_bars")
"""Items of the worked examples, which are not targets."""
