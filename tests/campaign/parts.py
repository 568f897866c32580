"""The parts of the campaign, in the order of its table."""

from tests.campaign import faults, kills, tokens

PARTS = (kills.PART, faults.PART, tokens.PART)
