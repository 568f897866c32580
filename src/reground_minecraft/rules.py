"""Facts of the game that recipe files leave out: gathering and its tools, smelting, upgrading and filling.

A source is the usual way to obtain an item. Rare drops, trading, enchanting (so no Silk Touch), brewing and
stonecutting are left out. An item behind a place or a danger (the Nether, a boss) has a higher `effort`, and the solver
prefers easy items.
"""

from __future__ import annotations

from dataclasses import dataclass

MATERIALS = ("wooden", "golden", "stone", "iron", "diamond", "netherite")
_LEVELS = {"wooden": 0, "stone": 2, "iron": 3, "diamond": 4}

ANY_AXE = tuple(f"{material}_axe" for material in MATERIALS)
ANY_SHOVEL = tuple(f"{material}_shovel" for material in MATERIALS)
SHEARS = ("shears",)
FURNACE = ("furnace",)
BLASTING = ("furnace", "blast_furnace")
COOKING = ("furnace", "smoker", "campfire", "soul_campfire")

NETHER = 40.0
END = 80.0


def pickaxe(material: str) -> tuple[str, ...]:
    """The pickaxes that are at least as good as one of `material`. A golden one mines no more than a wooden one."""
    return tuple(f"{name}_pickaxe" for name in MATERIALS[_LEVELS[material] :])


@dataclass(frozen=True)
class Source:
    """How one item is obtained from the world.

    how: a phrase such as "mine coal ore". tool: items of which one must be held; empty needs only hands.
    uses: the consumed items, each as alternatives and a count. gives: the number obtained at a time.
    effort: difficulty relative to felling a tree, which is 1.
    """

    how: str
    tool: tuple[str, ...] = ()
    uses: tuple[tuple[tuple[str, ...], int], ...] = ()
    gives: int = 1
    effort: float = 1.0


WOODS = ("oak", "spruce", "birch", "jungle", "acacia", "dark_oak", "mangrove", "crimson", "warped")
FUNGI = ("crimson", "warped")
COLOURS = (
    *("white", "orange", "magenta", "light_blue", "yellow", "lime", "pink", "gray"),
    *("light_gray", "cyan", "purple", "blue", "brown", "green", "red", "black"),
)
FLOWERS = (
    *("dandelion", "poppy", "blue_orchid", "allium", "azure_bluet", "red_tulip", "orange_tulip", "white_tulip"),
    *("pink_tulip", "oxeye_daisy", "cornflower", "lily_of_the_valley", "sunflower", "lilac", "rose_bush", "peony"),
)

# Items that need a pickaxe of the named material or a better one.
_MINED: dict[str, dict[str, str]] = {
    "wooden": {
        "cobblestone": "mine stone",
        "coal": "mine coal ore",
        "andesite": "mine andesite",
        "diorite": "mine diorite",
        "granite": "mine granite",
        "terracotta": "mine terracotta in badlands",
        "cobbled_deepslate": "mine deepslate",
        "tuff": "mine tuff",
        "calcite": "mine calcite around an amethyst geode",
        "dripstone_block": "mine dripstone in dripstone caves",
        "bell": "mine the bell of a village",
        "dead_tube_coral_block": "mine a tube coral block, which dies",
        "dead_brain_coral_block": "mine a brain coral block, which dies",
        "dead_bubble_coral_block": "mine a bubble coral block, which dies",
        "dead_fire_coral_block": "mine a fire coral block, which dies",
        "dead_horn_coral_block": "mine a horn coral block, which dies",
    },
    "stone": {"lapis_lazuli": "mine lapis lazuli ore"},
    "iron": {
        "diamond": "mine diamond ore",
        "redstone": "mine redstone ore",
        "emerald": "mine emerald ore in mountains",
    },
    "diamond": {"obsidian": "mine obsidian, where water has met lava"},
}
_MINED_IN_THE_NETHER: dict[str, dict[str, str]] = {
    "wooden": {
        "netherrack": "mine netherrack",
        "quartz": "mine nether quartz ore",
        "gold_nugget": "mine nether gold ore",
        "basalt": "mine basalt",
        "blackstone": "mine blackstone",
        "gilded_blackstone": "mine gilded blackstone in a bastion",
        "magma_block": "mine magma blocks",
    },
    "diamond": {"ancient_debris": "mine ancient debris", "crying_obsidian": "mine crying obsidian"},
}
_ORES_TO_1_16 = {"iron_ore": ("stone", "mine iron ore"), "gold_ore": ("iron", "mine gold ore")}
_ORES_SINCE_1_17 = {
    "raw_iron": ("stone", "mine iron ore"),
    "raw_copper": ("stone", "mine copper ore"),
    "raw_gold": ("iron", "mine gold ore"),
}

_BY_HAND: dict[str, str] = {
    "dirt": "dig dirt",
    "sand": "dig sand",
    "red_sand": "dig red sand in badlands",
    "gravel": "dig gravel",
    "flint": "dig gravel until flint drops",
    "clay_ball": "dig clay blocks in shallow water",
    "apple": "break oak leaves until an apple drops",
    "sugar_cane": "cut sugar cane beside water",
    "bamboo": "cut bamboo in a jungle",
    "cactus": "break cactus in a desert",
    "pumpkin": "pick a pumpkin",
    "melon_slice": "break a melon",
    "cocoa_beans": "pick cocoa pods in a jungle",
    "sweet_berries": "pick sweet berries in a taiga",
    "glow_berries": "pick glow berries from cave vines",
    "wheat": "harvest ripe wheat",
    "wheat_seeds": "break grass until seeds drop",
    "carrot": "harvest carrots in a village",
    "potato": "harvest potatoes in a village",
    "poisonous_potato": "harvest potatoes until a poisonous one drops",
    "beetroot": "harvest beetroots in a village",
    "beetroot_seeds": "harvest beetroots in a village",
    "brown_mushroom": "pick a brown mushroom in a dark place",
    "red_mushroom": "pick a red mushroom in a dark place",
    "lily_pad": "pick a lily pad in a swamp",
    "kelp": "break kelp in the sea",
    "sea_pickle": "break sea pickles in a warm sea",
    "wet_sponge": "break wet sponge in an ocean monument",
    "egg": "wait for a chicken to lay an egg",
    "turtle_scute": "wait for a baby turtle to grow up",
    "scute": "wait for a baby turtle to grow up",
    "moss_block": "dig moss in a lush cave",
    "azalea": "break an azalea in a lush cave",
    "flowering_azalea": "break a flowering azalea in a lush cave",
    "big_dripleaf": "break a big dripleaf in a lush cave",
    "spore_blossom": "break a spore blossom in a lush cave",
    "rooted_dirt": "dig rooted dirt under an azalea tree",
    "mud": "dig mud in a mangrove swamp",
    "mangrove_roots": "break the roots of a mangrove",
    "mangrove_propagule": "break a mangrove propagule",
    "amethyst_shard": "break an amethyst cluster in a geode",
    "pointed_dripstone": "break pointed dripstone in a cave",
}
_KILLED: dict[str, str] = {
    "leather": "a cow",
    "beef": "a cow",
    "porkchop": "a pig",
    "chicken": "a chicken",
    "feather": "a chicken",
    "mutton": "a sheep",
    "rabbit": "a rabbit",
    "rabbit_hide": "a rabbit",
    "rabbit_foot": "rabbits until a foot drops",
    "cod": "or catch a cod",
    "salmon": "or catch a salmon",
    "tropical_fish": "or catch a tropical fish",
    "pufferfish": "or catch a pufferfish",
    "ink_sac": "a squid",
    "glow_ink_sac": "a glow squid",
    "bone": "a skeleton",
    "arrow": "a skeleton",
    "string": "a spider",
    "spider_eye": "a spider",
    "gunpowder": "a creeper",
    "rotten_flesh": "a zombie",
    "slime_ball": "a slime in a swamp",
    "ender_pearl": "an enderman",
    "phantom_membrane": "a phantom",
}
_KILLED_FAR_AWAY: dict[str, tuple[str, float]] = {
    "prismarine_shard": ("a guardian at an ocean monument", 20.0),
    "prismarine_crystals": ("a guardian at an ocean monument", 20.0),
    "nautilus_shell": ("a drowned that holds a nautilus shell", 20.0),
    "trident": ("a drowned that holds a trident", 20.0),
    "totem_of_undying": ("an evoker in a woodland mansion", 60.0),
    "blaze_rod": ("a blaze in a Nether fortress", NETHER),
    "ghast_tear": ("a ghast in the Nether", NETHER),
    "magma_cream": ("a magma cube in the Nether", NETHER),
    "wither_skeleton_skull": ("wither skeletons in a Nether fortress until a skull drops", NETHER + 20),
    "creeper_head": ("a creeper with the blast of a charged creeper", 60.0),
    "zombie_head": ("a zombie with the blast of a charged creeper", 60.0),
    "skeleton_skull": ("a skeleton with the blast of a charged creeper", 60.0),
    "shulker_shell": ("a shulker in an End city", END),
    "dragon_egg": ("the ender dragon and take its egg", END),
}
_FAR_AWAY: dict[str, tuple[str, float]] = {
    "glowstone_dust": ("break glowstone in the Nether", NETHER),
    "soul_sand": ("dig soul sand in the Nether", NETHER),
    "soul_soil": ("dig soul soil in the Nether", NETHER),
    "nether_wart": ("harvest nether wart in a Nether fortress", NETHER),
    "warped_wart_block": ("break warped wart blocks in a warped forest", NETHER),
    "shroomlight": ("break shroomlights in a Nether forest", NETHER),
    "crimson_fungus": ("pick crimson fungus in a crimson forest", NETHER),
    "warped_fungus": ("pick warped fungus in a warped forest", NETHER),
    "crimson_roots": ("break crimson roots in a crimson forest", NETHER),
    "warped_roots": ("break warped roots in a warped forest", NETHER),
    "weeping_vines": ("break weeping vines in a crimson forest", NETHER),
    "twisting_vines": ("break twisting vines in a warped forest", NETHER),
    "chorus_fruit": ("break chorus plants on the outer End islands", END),
    "chorus_flower": ("break a chorus flower on the outer End islands", END),
    "dragon_head": ("take the head from the bow of an End ship", END),
    "elytra": ("take the elytra from an End ship", END),
    "heart_of_the_sea": ("open a buried treasure chest", 30.0),
    "enchanted_golden_apple": ("open chests in ancient cities or mineshafts until one holds it", 60.0),
    "saddle": ("open dungeon chests until one holds a saddle", 30.0),
    "name_tag": ("open dungeon chests until one holds a name tag", 30.0),
    "iron_horse_armor": ("open dungeon chests until one holds iron horse armor", 30.0),
    "golden_horse_armor": ("open dungeon chests until one holds golden horse armor", 30.0),
    "diamond_horse_armor": ("open dungeon chests until one holds diamond horse armor", 30.0),
    "music_disc_13": ("open dungeon chests until one holds the disc", 30.0),
    "music_disc_cat": ("open dungeon chests until one holds the disc", 30.0),
    "echo_shard": ("open the chests of an ancient city", 40.0),
    "disc_fragment_5": ("open the chests of an ancient city", 40.0),
    "wither_rose": ("let the Wither kill a creature and pick the rose", END),
}
_SHEARED: dict[str, str] = {
    "vine": "cut vines",
    "cobweb": "cut a cobweb in a mineshaft",
    "grass": "cut grass",
    "fern": "cut a fern",
    "dead_bush": "cut a dead bush in a desert",
    "seagrass": "cut seagrass",
    "honeycomb": "cut honeycomb from a full bee nest",
    "azalea_leaves": "cut azalea leaves",
    "flowering_azalea_leaves": "cut flowering azalea leaves",
    "small_dripleaf": "cut a small dripleaf",
    "hanging_roots": "cut hanging roots",
    "glow_lichen": "cut glow lichen in a cave",
}
_SHEEP = ("white", "light_gray", "gray", "black", "brown", "pink")


def _one(*items: str) -> tuple[tuple[str, ...], int]:
    return items, 1


_FILLED: dict[str, Source] = {
    "water_bucket": Source("fill a bucket from a pool of water", uses=(_one("bucket"),)),
    "lava_bucket": Source("fill a bucket from a pool of lava", uses=(_one("bucket"),), effort=3.0),
    "milk_bucket": Source("milk a cow with a bucket", uses=(_one("bucket"),)),
    "powder_snow_bucket": Source("fill a bucket with powder snow", uses=(_one("bucket"),), effort=3.0),
    "honey_bottle": Source("fill a glass bottle at a full bee nest", uses=(_one("glass_bottle"),), effort=3.0),
    "dragon_breath": Source(
        "fill a glass bottle with the ender dragon's breath", uses=(_one("glass_bottle"),), effort=END
    ),
    **{
        f"{animal}_bucket": Source(f"scoop up {phrase} with a water bucket", uses=(_one("water_bucket"),), effort=3.0)
        for animal, phrase in (
            ("cod", "a cod"),
            ("salmon", "a salmon"),
            ("pufferfish", "a pufferfish"),
            ("tropical_fish", "a tropical fish"),
            ("axolotl", "an axolotl"),
            ("tadpole", "a tadpole"),
        )
    },
    "carved_pumpkin": Source("carve a pumpkin with shears", tool=SHEARS, uses=(_one("pumpkin"),)),
    "snowball": Source("dig snow with a shovel", tool=ANY_SHOVEL),
    "nether_star": Source(
        "build and defeat the Wither",
        uses=((("soul_sand", "soul_soil"), 4), (("wither_skeleton_skull",), 3)),
        effort=END,
    ),
    "exposed_copper": Source("let a copper block weather", uses=(_one("copper_block"),), effort=5.0),
    "weathered_copper": Source("let exposed copper weather", uses=(_one("exposed_copper"),), effort=5.0),
    "oxidized_copper": Source("let weathered copper weather", uses=(_one("weathered_copper"),), effort=5.0),
}


def sources(*, raw_metals: bool) -> dict[str, Source]:
    """Every item that the world gives, by name. raw_metals: whether ores drop raw metal, as since 1.17."""
    found = {item: Source(how) for item, how in _BY_HAND.items()}
    found |= {item: Source(f"pick {a_or_an(item)}") for item in FLOWERS}
    found |= {item: Source(how, tool=SHEARS) for item, how in _SHEARED.items()}
    found |= {item: Source(how, effort=effort) for item, (how, effort) in _FAR_AWAY.items()}
    found |= {item: Source(f"kill {prey}", effort=2.0) for item, prey in _KILLED.items()}
    found |= {item: Source(f"kill {prey}", effort=effort) for item, (prey, effort) in _KILLED_FAR_AWAY.items()}
    for material, items in _MINED.items():
        found |= {item: Source(how, pickaxe(material)) for item, how in items.items()}
    for material, items in _MINED_IN_THE_NETHER.items():
        found |= {item: Source(f"{how} in the Nether", pickaxe(material), effort=NETHER) for item, how in items.items()}
    ores = _ORES_SINCE_1_17 if raw_metals else _ORES_TO_1_16
    found |= {item: Source(how, pickaxe(material)) for item, (material, how) in ores.items()}
    found["end_stone"] = Source("mine end stone in the End", pickaxe("wooden"), effort=END)
    found |= {f"{colour}_wool": Source(f"shear or kill a {name_of(colour)} sheep") for colour in _SHEEP}
    found |= _concrete() | _wood() | _FILLED
    return found


def _concrete() -> dict[str, Source]:
    return {
        f"{colour}_concrete": Source(
            f"let water harden {name_of(colour)} concrete powder and mine it",
            pickaxe("wooden"),
            uses=(_one(f"{colour}_concrete_powder"),),
        )
        for colour in COLOURS
    }


def _wood() -> dict[str, Source]:
    found: dict[str, Source] = {}
    for wood in WOODS:
        if wood in FUNGI:
            log, bark, effort = f"{wood}_stem", f"{wood}_hyphae", NETHER
            found[log] = Source(f"chop a huge {wood} fungus in the Nether", effort=effort)
        else:
            log, bark, effort = f"{wood}_log", f"{wood}_wood", 1.0
            found[log] = Source(f"chop {name_of(wood)} trees")
            found[f"{wood}_leaves"] = Source(f"cut {name_of(wood)} leaves", tool=SHEARS)
            found[f"{wood}_sapling"] = Source(f"break {name_of(wood)} leaves until a sapling drops")
        found[f"stripped_{log}"] = Source(f"strip {name_of(log)} with an axe", ANY_AXE, uses=(_one(log),))
        found[f"stripped_{bark}"] = Source(f"strip {name_of(bark)} with an axe", ANY_AXE, uses=(_one(bark),))
    return found


def name_of(item: str) -> str:
    """An identifier as words: "oak_log" is "oak log"."""
    return item.replace("_", " ")


def a_or_an(item: str) -> str:
    """An identifier as words with its article: "an oak log"."""
    return f"{'an' if item[0] in 'aeiou' else 'a'} {name_of(item)}"


@dataclass(frozen=True)
class Smelting:
    """One item smelted into another, one for one, at any of the stations."""

    result: str
    inputs: tuple[str, ...]
    stations: tuple[str, ...] = FURNACE


_LOGS = tuple(
    f"{stripped}{wood}_{part}"
    for wood in WOODS
    if wood not in FUNGI
    for part in ("log", "wood")
    for stripped in ("", "stripped_")
)

SMELTING: tuple[Smelting, ...] = (
    Smelting("iron_ingot", ("iron_ore", "deepslate_iron_ore", "raw_iron"), BLASTING),
    Smelting("gold_ingot", ("gold_ore", "deepslate_gold_ore", "nether_gold_ore", "raw_gold"), BLASTING),
    Smelting("copper_ingot", ("copper_ore", "deepslate_copper_ore", "raw_copper"), BLASTING),
    Smelting("netherite_scrap", ("ancient_debris",), BLASTING),
    Smelting("charcoal", _LOGS),
    Smelting("glass", ("sand", "red_sand")),
    Smelting("stone", ("cobblestone",)),
    Smelting("smooth_stone", ("stone",)),
    Smelting("deepslate", ("cobbled_deepslate",)),
    Smelting("brick", ("clay_ball",)),
    Smelting("terracotta", ("clay",)),
    Smelting("nether_brick", ("netherrack",)),
    Smelting("smooth_sandstone", ("sandstone",)),
    Smelting("smooth_red_sandstone", ("red_sandstone",)),
    Smelting("smooth_quartz", ("quartz_block",)),
    Smelting("smooth_basalt", ("basalt",)),
    Smelting("cracked_stone_bricks", ("stone_bricks",)),
    Smelting("cracked_nether_bricks", ("nether_bricks",)),
    Smelting("cracked_polished_blackstone_bricks", ("polished_blackstone_bricks",)),
    Smelting("cracked_deepslate_bricks", ("deepslate_bricks",)),
    Smelting("cracked_deepslate_tiles", ("deepslate_tiles",)),
    Smelting("green_dye", ("cactus",)),
    Smelting("lime_dye", ("sea_pickle",)),
    Smelting("popped_chorus_fruit", ("chorus_fruit",)),
    Smelting("sponge", ("wet_sponge",)),
    Smelting("cooked_beef", ("beef",), COOKING),
    Smelting("cooked_porkchop", ("porkchop",), COOKING),
    Smelting("cooked_chicken", ("chicken",), COOKING),
    Smelting("cooked_mutton", ("mutton",), COOKING),
    Smelting("cooked_rabbit", ("rabbit",), COOKING),
    Smelting("cooked_cod", ("cod",), COOKING),
    Smelting("cooked_salmon", ("salmon",), COOKING),
    Smelting("baked_potato", ("potato",), COOKING),
    Smelting("dried_kelp", ("kelp",), COOKING),
    *(Smelting(f"{colour}_glazed_terracotta", (f"{colour}_terracotta",)) for colour in COLOURS),
)

# Diamond gear becomes netherite gear at a smithing table (before 1.20, without a template).
UPGRADED = ("sword", "shovel", "pickaxe", "axe", "hoe", "helmet", "chestplate", "leggings", "boots")

# What crafting leaves behind of an ingredient.
LEFT_OVER = {
    "milk_bucket": "bucket",
    "water_bucket": "bucket",
    "lava_bucket": "bucket",
    "honey_bottle": "glass_bottle",
    "dragon_breath": "glass_bottle",
}
