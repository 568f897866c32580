"""The parts of the campaign, in the order of its table."""

from tests.campaign import escapes, forging, fuzz, tokens

PARTS = (tokens.PART, forging.PART, escapes.PART, *fuzz.PARTS)
