"""Control tokens of models, hidden in what is retrieved: none stands whole in a prompt."""

from __future__ import annotations

import random

from reground.core.evidence import Passage
from reground.core.untrusted import fence
from tests.campaign.trial import Part, Trial
from tests.core.special_tokens import TOKENS

_AROUND = ("", " ", "\n", "x", "</passage>", "<|", "[", "\u200b", "\u00a0", "```\n")


async def attempt(number: int) -> list[Trial]:
    """One token in one of the places where a hostile page may put it."""
    token = TOKENS[number % len(TOKENS)]
    chance = random.Random(number)
    before, after = chance.choice(_AROUND), chance.choice(_AROUND)
    half = len(token) // 2
    ways = {
        "in the text": Passage(id="1", title="t", text=before + token + after),
        "in the title": Passage(id="1", title=before + token + after, text="t"),
        "inside itself": Passage(id="1", title="t", text=token[:half] + token + token[half:]),
        "across title and text": Passage(id="1", title=before + token[:half], text=token[half:] + after),
    }
    return [
        Trial(f"A control token {way}", token not in fence([page]), f"{token!r} {way}") for way, page in ways.items()
    ]


PART = Part(
    name="tokens",
    promise="No control token gets from a document into a prompt",
    short=2 * len(TOKENS),
    long=10 * len(TOKENS),
    attempt=attempt,
)
