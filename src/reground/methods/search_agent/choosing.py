"""Which of a step's samples is used: the one of lowest perplexity, or the one that agrees most with the others.

Agreement decides only where log-probabilities are missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reground.core.errors import ParseError
from reground.core.language import Reply
from reground.core.trajectory import Candidate
from reground.methods.search_agent.actions import Action, as_data
from reground.methods.search_agent.parsing import read_action

Legal = Callable[[Action], str | None]
"""Says what is wrong with an action in the present state; None if it is legal."""


@dataclass(frozen=True)
class Sample:
    """A sampled reply with its action, or the reason it is discarded. repaired: whether its quotes were mended."""

    reply: Reply
    action: Action | None = None
    discarded: str | None = None
    repaired: bool = False


@dataclass(frozen=True)
class Choice:
    """The choice among samples: an index (None if all were discarded), the criterion, and the reason."""

    samples: tuple[Sample, ...]
    chosen: int | None
    by: str
    why: str
    scores: tuple[float | None, ...]

    @property
    def action(self) -> Action | None:
        """The action of the chosen sample."""
        return None if self.chosen is None else self.samples[self.chosen].action

    @property
    def discarded(self) -> int:
        """Number of unusable samples."""
        return sum(sample.action is None for sample in self.samples)

    @property
    def repaired(self) -> int:
        """Number of samples that are usable only because their quotes were mended."""
        return sum(sample.repaired for sample in self.samples)

    def candidates(self) -> list[Candidate]:
        """The samples for the trajectory."""
        return [
            Candidate(
                text=sample.reply.text,
                logprob=sample.reply.mean_logprob,
                score=score,
                discarded=sample.discarded,
                data={} if sample.action is None else as_data(sample.action),
            )
            for sample, score in zip(self.samples, self.scores, strict=True)
        ]


def read(reply: Reply, kinds: tuple[type[Action], ...], legal: Legal) -> Sample:
    """Parse a reply. Every reply gives a sample, even a malformed one."""
    is_cut = reply.finish_reason == "length"
    try:
        action, repaired = read_action(reply.text, mend=not is_cut)
    except ParseError as error:
        return Sample(reply, discarded=f"{error}{' It was cut by the length limit.' if is_cut else ''}")
    wrong = None if isinstance(action, kinds) else f"{type(action).__name__} is no action of this step."
    wrong = wrong or legal(action)
    return Sample(reply, discarded=wrong) if wrong else Sample(reply, action, repaired=repaired)


def choose(samples: Sequence[Sample]) -> Choice:
    """The usable sample of lowest perplexity; without log-probabilities, the one that agrees most with the others.

    Among equals the first is chosen.
    """
    usable = [i for i, sample in enumerate(samples) if sample.action is not None]
    logprobs = [samples[i].reply.mean_logprob for i in usable]
    measured = [logprob for logprob in logprobs if logprob is not None]
    if len(measured) == len(usable):
        by, values, why = "perplexity", measured, f"the lowest perplexity of {len(usable)} usable samples"
    else:
        by, values = "agreement", _agreements([_essence(samples[i].action) for i in usable])
        missing = f"{len(usable) - len(measured)} without log-probabilities"
        why = f"most agreement of {len(usable)} usable samples, {missing}"
    scores: list[float | None] = [None] * len(samples)
    for i, value in zip(usable, values, strict=True):
        scores[i] = value
    if not usable:
        return Choice(tuple(samples), None, by, "every sample was discarded", tuple(scores))
    best = usable[values.index(max(values))]
    return Choice(tuple(samples), best, by, why, tuple(scores))


def _essence(action: Action | None) -> tuple[str, Counter[str]]:
    """An action's kind and the words of all but its thoughts."""
    data = {} if action is None else as_data(action)
    said = " ".join(str(value) for name, value in data.items() if name not in ("action", "thoughts"))
    return str(data.get("action", "")), Counter(re.findall(r"\w+", said.casefold()))


def _agreements(essences: Sequence[tuple[str, Counter[str]]]) -> list[float]:
    """Mean similarity of each one to the others; 1 if there are no others."""
    return [
        sum(_likeness(mine, other) for j, other in enumerate(essences) if j != i) / (len(essences) - 1)
        if len(essences) > 1
        else 1.0
        for i, mine in enumerate(essences)
    ]


def _likeness(a: tuple[str, Counter[str]], b: tuple[str, Counter[str]]) -> float:
    """Token F1 of two actions of one kind; actions of different kinds have nothing in common."""
    if a[0] != b[0]:
        return 0.0
    total = a[1].total() + b[1].total()
    return 2 * (a[1] & b[1]).total() / total if total else 1.0
