"""How far a piece of fuel goes, for worlds in which smelting needs fuel."""

from __future__ import annotations

# Items that one piece of fuel smelts, for worlds where fuel counts.
FUELS = {
    "coal": 8.0,
    "charcoal": 8.0,
    "coal_block": 80.0,
    "lava_bucket": 100.0,
    "blaze_rod": 12.0,
    "dried_kelp_block": 20.0,
}
WOODEN_FUEL = 1.5
