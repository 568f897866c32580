"""The parts of the campaign, in the order of its table."""

from tests.campaign import escapes, faults, forging, fuzz, kills, tokens

PARTS = (kills.PART, faults.PART, forging.PART, escapes.PART, tokens.PART, *fuzz.PARTS)
