"""What the providers' OpenAI-compatible interfaces lack, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Wish = Literal["logprobs", "grammar"]


@dataclass(frozen=True)
class Limits:
    """What is known before the first call. What is not known is learnt from the server's refusals.

    without: parameters that are not sent, because they are refused or ignored. lacks: what cannot be asked for at all,
    because the server would ignore it silently. samples: the most replies of one request. stops: the most stop strings
    of one request. refuses_blank_stops: a stop string of white space alone is refused.
    thinks_apart: `completion_tokens` leaves out the tokens of thoughts, which `total_tokens` has.
    """

    without: frozenset[str] = frozenset()
    lacks: frozenset[Wish] = frozenset()
    samples: int | None = None
    stops: int | None = None
    refuses_blank_stops: bool = False
    thinks_apart: bool = False


NONE = Limits()

ANTHROPIC = Limits(without=frozenset({"n", "seed"}), lacks=frozenset({"logprobs", "grammar"}), refuses_blank_stops=True)
"""Source: platform.claude.com, "OpenAI SDK compatibility", as of November 2026.

`n` must be 1; `seed`, `logprobs` and `response_format` are ignored without an error; a stop string of white space alone
does not work. Learnt from refusals: models since Opus 4.7 take no temperature, others not both temperature and top_p.
"""

GEMINI = Limits(without=frozenset({"seed"}), samples=8, stops=5, thinks_apart=True)
"""Sources: ai.google.dev, "OpenAI compatibility" and `GenerationConfig`, as of November 2026, and reports of users.

`seed` is refused as an unknown name (ChatterUI #227). The API takes 1 to 8 candidates and up to 5 stop strings. Learnt
from refusals: models that give one candidate or no log-probabilities. `total_tokens` minus the two other counts is what
the model thought, which is paid (any-llm #1290).
"""
