"""The parts of the campaign, in the order of its table."""

from tests.campaign import fuzz, tokens

PARTS = (tokens.PART, *fuzz.PARTS)
