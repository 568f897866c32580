"""The parts of the campaign, in the order of its table."""

from tests.campaign import kills, tokens

PARTS = (kills.PART, tokens.PART)
