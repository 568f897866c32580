"""Self-consistency: sample several chains of thought and take the answer that most of them reach.

Wang et al. 2022; in RaR (table 1) it is scaled by the number of samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.language import LEAST_REPLY, REPLY_TOKENS, LanguageModel, Reply, Sampling
from reground.core.run import Run
from reground.methods.cot import reasoned
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.prompts import render, require


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`answer`: places {question} and {form}, the sentence that says what an answer looks like."""

    answer: str = "{question}\n\nThink step by step. Leave a blank line between the steps. {form}"


@dataclass(frozen=True, kw_only=True)
class SelfConsistency:
    """Majority vote over sampled chains of thought.

    model: the model that answers. form: the form of the answer; its `extract` finds the vote.
    prompts: the template. n: number of samples; one call, or several where a limit leaves room for fewer at once.
    temperature: sampling temperature. max_tokens: maximum tokens of each sample.
    """

    model: LanguageModel
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    n: int = 5
    temperature: float = 0.7
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(self.n >= 1, "n must be at least 1")
        require(self.max_tokens >= 1, "max_tokens must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        prompt = render(self.prompts.answer, question=question, form=self.form.instruction)
        ample = 4 * self.form.usual  # a sample that is cut before its answer has no vote
        replies: list[Reply] = []
        with run.optional():
            while len(replies) < self.n:
                replies += await self._sample(prompt, run, n=self.n - len(replies), least=ample)
                run.propose(self._vote(replies))
        if not replies:  # a short answer is better than none
            replies = await self._sample(prompt, run, n=1, least=LEAST_REPLY)
        return run.propose(self._vote(replies))

    async def _sample(self, prompt: str, run: Run, *, n: int, least: int) -> list[Reply]:
        sampling = Sampling(n=n, temperature=self.temperature, max_tokens=self.max_tokens)
        return await run.generate(self.model, prompt, name="sample", sampling=sampling, least=least)

    def sizes(self) -> Sequence[SelfConsistency]:
        """More samples."""
        return [replace(self, n=n) for n in (1, 3, 5, 10, 20, 40)]

    def _vote(self, replies: Sequence[Reply]) -> Answer:
        texts = [reply.text for reply in replies if reply.text.strip()] or [""]
        return reasoned(texts[majority([self.form.extract(text) for text in texts])], self.form)


def majority(answers: Sequence[str]) -> int:
    """The index of the first answer that most others equal, letter case and white space aside.

    Where no two agree (prose, programs) it is the medoid: the answer that shares most words with all others.
    Empty answers have no vote unless all are empty.
    """
    keys = [" ".join(answer.casefold().split()) for answer in answers]
    votes = Counter(key for key in keys if key)
    if not votes:
        return 0
    key, count = votes.most_common(1)[0]
    if count > 1 or len(votes) == 1:
        return keys.index(key)
    closeness = [sum(_overlap(key, other) for other in keys) if key else -1.0 for key in keys]
    return closeness.index(max(closeness))


def _overlap(a: str, b: str) -> float:
    """Token F1: twice the words in common over the words of both."""
    x, y = Counter(a.split()), Counter(b.split())
    return 2 * (x & y).total() / max(1, x.total() + y.total())


METHOD = SelfConsistency
