"""The parts of the campaign, in the order of its table."""

from tests.campaign import tokens

PARTS = (tokens.PART,)
