"""The parts of the campaign, in the order of its table."""

from tests.campaign import escapes, faults, forging, fuzz, kills

PARTS = (kills.PART, faults.PART, forging.PART, escapes.PART, fuzz.PART)
