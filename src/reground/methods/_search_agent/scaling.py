"""What a question costs at given settings, so that the agent can be scaled to a token budget."""

from __future__ import annotations

from dataclasses import dataclass

from reground.methods._search_agent.prompts import Prompts
from reground.methods._search_agent.steps import ANSWER, DECIDE, GROUNDING, RELEVANCE, SUMMARISE, Step, expected, fit
from reground.methods._search_agent.view import View

_QUESTION = "x" * 140
_SEARCH = 40
_LINK = 24
_FINISH = 220


@dataclass(frozen=True)
class Rung:
    """Settings that go together: exemplars, samples, searches, tokens a snippet, and whether the self-checks are reckoned with."""

    shots: int
    samples: int
    searches: int
    snippet: int
    checks: bool = True


RUNGS = (
    Rung(1, 1, 1, 48, checks=False),
    Rung(1, 1, 1, 96, checks=False),
    Rung(1, 2, 1, 96, checks=False),
    Rung(1, 1, 2, 48, checks=False),
    Rung(1, 2, 2, 96, checks=False),
    Rung(1, 2, 2, 120),
    Rung(2, 3, 2, 160),
    Rung(2, 4, 3, 160),
    Rung(4, 4, 3, 160),
    Rung(4, 4, 5, 160),
    Rung(9, 4, 5, 160),
    Rung(9, 4, 10, 160),
    Rung(9, 16, 10, 160),
)


def cost(rung: Rung, prompts: Prompts, *, k: int, short: bool) -> int:
    """Tokens that a question takes if all searches are made; a search is reckoned to keep a third of its results."""
    result = rung.snippet + _LINK
    kept = _SEARCH + SUMMARISE.usual + k * result // 3

    def step(kind: Step, state: int) -> int:
        prompt = fit(
            kind, prompts.system(kind.name), View(_QUESTION), shots=rung.shots, snippet=rung.snippet, limit=None
        ).size
        return prompt + state + rung.samples * kind.usual

    total = sum(step(DECIDE, i * kept) + step(SUMMARISE, i * kept + _SEARCH + k * result) for i in range(rung.searches))
    total += step(ANSWER, rung.searches * kept)
    if rung.checks:
        total += sum(step(kind, rung.searches * kept + 2 * ANSWER.usual) for kind in (RELEVANCE, GROUNDING))
    return expected(total + _FINISH * short)
