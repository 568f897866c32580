"""A language model as the critic, asked in words (CR-Planner, section 4.1, where GPT-4 stands in for trained ones).

Two styles. `pointwise` asks about every candidate by itself, all at once, and takes its score from the log-probability
of the reply's yes or no. `rank` shows all candidates in one call and asks for the number of the best. With three
candidates it costs a third, but it is biased towards a place in the list and gives the others no score.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from reground.core.concurrency import gather
from reground.core.errors import ConfigurationError
from reground.core.language import IMPOSSIBLE, LanguageModel, Reply, Sampling
from reground.core.run import Critic, Run
from reground.core.trajectory import Pair
from reground.critics import grouped, in_place

Style = Literal["pointwise", "rank"]
NEUTRAL = 0.5
"""The score of a candidate on which the reply gave no verdict."""

_VERDICT = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")

JOBS = {
    "subgoal": "Below are a question and the work on it so far. You judge what to do next: reason on, write a search "
    "query, or look up documents with the query at hand. Good is what the work lacks most.",
    "rationale": "Below are a question and the reasoning so far. You judge the next step of the reasoning. Good is a "
    "step that is correct, follows from what is there and brings the answer nearer.",
    "query": "Below are a question and the step of reasoning at hand. You judge a search query. Good is one that would "
    "find what the step needs in order to be checked or taken further.",
    "doc": "Below are a question, the step of reasoning at hand and a search query. You judge a document that was "
    "found. Good is one that holds what the step needs.",
}


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What is asked: {job}, {context} and the {proposal}, or for `rank` the numbered {proposals}."""

    pointwise: str = (
        "{job}\n\n{context}\n\nThe proposal:\n{proposal}\n\n"
        "Is this proposal good? Answer with one word only, yes or no."
    )
    rank: str = (
        "{job}\n\n{context}\n\nThe proposals:\n{proposals}\n\n"
        "Which of these proposals is the best? Answer with its number only."
    )


@dataclass(frozen=True, kw_only=True)
class PromptedCritic:
    """A model that is asked for its verdict.

    kind: what is judged, a key of `jobs`. model: who judges. style: one call a candidate, or one for all.
    prompts, jobs: the words. max_tokens: the most tokens of a verdict. logprobs: whether a model without
    log-probabilities is refused or its word taken.
    """

    kind: str
    model: LanguageModel
    style: Style = "pointwise"
    prompts: Prompts = Prompts()
    jobs: Mapping[str, str] = field(default_factory=lambda: JOBS)
    max_tokens: int = 4
    logprobs: Literal["needed", "welcome"] = "welcome"

    @property
    def name(self) -> str:
        """The style, the model, and a fingerprint of the prompts if they are not the default."""
        words = (self.prompts, dict(self.jobs))
        own = "" if words == (Prompts(), JOBS) else " " + hashlib.sha256(repr(words).encode()).hexdigest()[:8]
        return f"prompted:{self.style} {self.model.name}{own}"

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """Between 0 and 1; 0.5, and a note, for each reply without a verdict.

        Pointwise every pair is a call; to rank, every context is one, in the order in which they come.
        """
        groups: list[list[int]] = [[place] for place in range(len(pairs))]
        if self.style == "rank":
            groups = list(grouped(pair.context for pair in pairs).values())
        spans = [run.span("verdict") for _ in groups]
        jobs = zip(groups, spans, strict=True)
        scores = await gather(*(self._judge([pairs[place] for place in places], span) for places, span in jobs))
        return in_place(zip(groups, scores, strict=True))

    async def _judge(self, pairs: Sequence[Pair], run: Run) -> list[float]:
        """The scores of pairs with one context; 0.5 for each where the reply gives no verdict."""
        numbered = (f"{number}. {pair.candidate}" for number, pair in enumerate(pairs, start=1))
        prompt = getattr(self.prompts, self.style).format_map(
            {
                "job": self.jobs[self.kind],
                "context": pairs[0].context,
                "proposal": pairs[0].candidate,
                "proposals": "\n\n".join(numbered),
            }
        )
        sampling = Sampling(max_tokens=self.max_tokens, logprobs=True)
        name = f"judge {self.kind}"
        reply, *_ = await run.generate(self.model, prompt, name=name, sampling=sampling, logprobs=self.logprobs)
        if self.style == "pointwise" and (score := read_verdict(reply)) is not None:
            return [score]
        if self.style == "rank" and (best := read_number(reply, len(pairs))) is not None:
            return [best[1] if place == best[0] else 0.0 for place in range(len(pairs))]
        run.note("no verdict", kind=self.kind, reply=reply.text)
        return [NEUTRAL] * len(pairs)


def read_verdict(reply: Reply) -> float | None:
    """A reply's yes or no as a score; None if it says neither.

    Yes at probability p is (1 + p) / 2, no is (1 - p) / 2: p alone would put a hesitant yes below a hesitant no,
    because the rest of the probability lies on words that are neither. Without log-probabilities p is 1.
    """
    match, sure = _find(reply, _VERDICT)
    if match is None:
        return None
    return (1 + sure) / 2 if match.group(1).lower() == "yes" else (1 - sure) / 2


def read_number(reply: Reply, most: int) -> tuple[int, float] | None:
    """The index of the candidate that a reply names first, and its probability; None if it names none."""
    match, sure = _find(reply, _NUMBER)
    if match is None:
        return None
    digits = match.group().lstrip("0")
    if not digits.isdecimal() or len(digits) > 3 or not 1 <= int(digits) <= most:
        return None
    return int(digits) - 1, sure


def _find(reply: Reply, pattern: re.Pattern[str]) -> tuple[re.Match[str] | None, float]:
    """The first match, and the probability of its tokens: 1 if the model gave none.

    A token that was written has some probability. `IMPOSSIBLE` says that the server does not know it.
    """
    tokens = reply.token_logprobs or ()
    text = "".join(token.token for token in tokens)
    match = pattern.search(text)
    if match is None:
        return pattern.search(reply.text), 1.0
    total, start = 0.0, 0
    for token in tokens:
        end = start + len(token.token)
        if start < match.end() and end > match.start():
            total += token.logprob
        start = end
    return match, math.exp(min(0.0, total)) if total > IMPOSSIBLE else 1.0


def model_of(detail: str) -> tuple[str, str | None]:
    """Split a detail such as `rank:openai/large` into the style and the judging model; None is the method's own."""
    style, _, model = detail.partition(":")
    return ("", detail) if "/" in style else (style, model or None)


def create(kind: str, *, model: LanguageModel, detail: str) -> Critic:
    """A critic for the kind on the given model; the detail is the style. Raises ConfigurationError for another word."""
    style, name = model_of(detail)
    if name is not None:
        raise ConfigurationError(
            f"nobody has opened the model {name}: from Python, "
            f"give critics=load('prompted:{style or 'pointwise'}', model=...)"
        )
    if detail not in {"", "pointwise", "rank"}:
        raise ConfigurationError(f"the critic prompted is pointwise or rank, not {detail!r}")
    return PromptedCritic(kind=kind, model=model, style="rank" if detail == "rank" else "pointwise")
