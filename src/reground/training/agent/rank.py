"""A model ranks the samples of each reasoning step (ReST meets ReAct, section 3.5 and listing 8).

Off policy: the trajectory went on with the sample of lowest perplexity, and stays as it is. Small judges prefer a place
in the list, so the order rotates from turn to turn; `judge` asks about every sample by itself instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import Literal
from zlib import crc32

from reground.core.language import LanguageModel, Sampling
from reground.core.run import Run
from reground.critics.prompted import NEUTRAL, read_verdict
from reground.methods.shared.prompts import render
from reground.training.agent.turns import Turn

Style = Literal["rank", "judge"]

_NUMBER = re.compile(r"\d{1,3}")
_NAMED = re.compile(r"#\s?(\d{1,3})")
_ITEM = re.compile(r"\A\s*+\d{1,3}[.)]\s++(?=\D*+\d)")
_LABELS = frozenset({"explanation", "answer", "ranking"})


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What the judge reads. Places: {state}, what the agent saw; {samples}, numbered, or one {sample}."""

    rank: str = (
        "An agent answers questions by searching. Below is what it saw at one step, and several ways in which it could "
        "go on. Find the one that is best to learn from.\n"
        "Good steps are relevant to the question, say nothing that the agent has not seen, and lead to the answer in "
        "few steps. A step with an empty part is bad.\n\n"
        "What the agent saw:\n{state}\n\n{samples}\n\n"
        "Judge by what the agent saw, not by what you know yourself. Write exactly three lines:\n"
        "Explanation: why that one is the best\nAnswer: #its number\n"
        "Ranking: all numbers, the best first, as in #2 > #1"
    )
    judge: str = (
        "An agent answers questions by searching. Below is what it saw at one step, and how it went on.\n"
        "Good steps are relevant to the question, say nothing that the agent has not seen, and lead to the answer in "
        "few steps. A step with an empty part is bad.\n\n"
        "What the agent saw:\n{state}\n\nHow it went on:\n{sample}\n\n"
        "Is this a good step? Answer with one word only, yes or no."
    )


_PROMPTS = Prompts()


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """Orders the samples of a turn.

    model: the judge; the paper has a larger, instruction-tuned one. style: rank all in one call, or judge each.
    prompts: the words. max_tokens: maximum tokens of a ranking with its explanation.
    """

    model: LanguageModel
    style: Style = "rank"
    prompts: Prompts = _PROMPTS
    max_tokens: int = 192

    async def order(self, turn: Turn, run: Run) -> tuple[int, ...] | None:
        """The indices of the turn's samples, best first; None for a ranking that cannot be read.

        Equal samples are judged once and stand together. Those that the ranking does not name come last, by perplexity.
        """
        texts = list(dict.fromkeys(sample.text for sample in turn.samples))
        if len(texts) < 2:
            return tuple(range(len(turn.samples)))
        best = await (self._ranked(turn, texts, run) if self.style == "rank" else self._judged(turn, texts, run))
        if best is None:
            run.note("no ranking", turn=turn.key)
            return None
        places = {texts[index]: place for place, index in enumerate(best)}
        last = len(texts)

        def place(index: int) -> tuple[int, float]:
            sample = turn.samples[index]
            return places.get(sample.text, last), inf if sample.logprob is None else -sample.logprob

        return tuple(sorted(range(len(turn.samples)), key=place))

    async def _ranked(self, turn: Turn, texts: Sequence[str], run: Run) -> list[int] | None:
        start = crc32(turn.key.encode()) % len(texts)
        shown = [*range(start, len(texts)), *range(start)]
        samples = "\n\n".join(f"Way #{number}:\n{texts[i]}" for number, i in enumerate(shown, start=1))
        prompt = render(self.prompts.rank, state=turn.state, samples=samples)
        said = await run.ask(self.model, prompt, name="rank", sampling=Sampling(max_tokens=self.max_tokens))
        order = read_ranking(said, len(texts))
        return None if order is None else [shown[place] for place in order]

    async def _judged(self, turn: Turn, texts: Sequence[str], run: Run) -> list[int]:
        # One after the other, because each prompt begins as the one before, which a server then need not read again.
        scores = [await self._judge(turn, text, run.span("judge")) for text in texts]
        return sorted(range(len(texts)), key=lambda i: -scores[i])

    async def _judge(self, turn: Turn, text: str, run: Run) -> float:
        prompt = render(self.prompts.judge, state=turn.state, sample=text)
        sampling = Sampling(max_tokens=4, logprobs=True)
        (reply,) = await run.generate(self.model, prompt, name="judge", sampling=sampling, logprobs="welcome")
        score = read_verdict(reply)
        return NEUTRAL if score is None else score


def read_ranking(said: str, count: int) -> list[int] | None:
    """The indices that a reply ranks, best first; what it does not name is left out. None if it names none.

    The line "Ranking:" counts, or a list below it; without a usable one the line "Answer:". Where numbers have a #,
    those without are places or counts.
    """
    lines = said.splitlines()
    for wanted in ("ranking", "answer"):
        for at, line in enumerate(lines):
            if _label(line) != wanted:
                continue
            rest = line.partition(":")[2].strip(" *_")
            found = rest or _listed(lines[at + 1 :])
            named = dict.fromkeys(int(number) - 1 for number in _NAMED.findall(found) or _NUMBER.findall(found))
            if known := [index for index in named if 0 <= index < count]:
                return known
    return None


def _label(line: str) -> str:
    return line.partition(":")[0].strip(" *_#-").casefold()


def _listed(lines: Sequence[str]) -> str:
    """The list that these lines begin with, without the numbers of its items."""
    items = takewhile(lambda line: _NUMBER.search(line) and _label(line) not in _LABELS, filter(str.strip, lines))
    return "\n".join(_ITEM.sub("", line) for line in items)
