"""IRCoT: interleave retrieval with the chain of thought; each new sentence is the next query.

Trivedi et al. 2022. Their settings: BM25, 6 paragraphs a step, at most 15 in all, the query is the last sentence of
the reasoning (the question at first), stop when a sentence says "answer is" or after 8 steps; a reader then answers from the
collected paragraphs. In RaR (table 1) it is scaled by what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.evidence import Retriever
from reground.core.language import LanguageModel, Sampling
from reground.core.run import Run
from reground.methods import _prompts
from reground.methods._budget import INSTRUCTIONS, LEAST_PASSAGE, SHORT
from reground.methods._evidence import Evidence, find
from reground.methods._prompts import QUOTED, ending, render, require
from reground.methods._sentences import sentences

_ENDS = re.compile(r"\banswer\s*(?:is\b|:)", re.IGNORECASE)

_HEAD = (
    "Answer the question with the help of the passages. " + QUOTED + "\n\n"
    "{passages}\n\nQuestion:\n{question}\n\nReasoning:\n{thoughts}\n\n"
)


@dataclass(frozen=True, kw_only=True)
class Prompts(_prompts.Prompts):
    """What the two calls ask.

    reason: places {question}, {passages} and {thoughts}, the sentences so far.
    answer: {question}, {passages}, {thoughts} and {form}, how the answer is stated and cited.
    """

    reason: str = _HEAD + (
        "Reason one sentence at a time, from the passages. Write only the next sentence of the reasoning. "
        'When the answer is clear write "So the answer is" and the answer.'
    )
    answer: str = _HEAD + "Give the final answer now. {form}"


@dataclass(frozen=True, kw_only=True)
class IRCoT:
    """Retrieval and reasoning take turns, a sentence at a time.

    model, retriever: who reasons, and what is searched. form: what an answer looks like. prompts: the templates.
    k: paragraphs a step. max_passages: the most in all. max_steps: the most sentences of reasoning.
    passage_tokens: where a paragraph is cut. context_tokens: the most tokens of all of them in a prompt, those found first and
    at least one; None is no limit. temperature: 0 is greedy.
    sentence_tokens: the most tokens of a sentence. max_tokens: the most tokens of the answer.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    k: int = 6
    max_passages: int = 15
    max_steps: int = 8
    passage_tokens: int = 2000
    context_tokens: int | None = None
    temperature: float = 0.0
    sentence_tokens: int = 96
    max_tokens: int = 512

    def __post_init__(self) -> None:
        require(1 <= self.k <= self.max_passages, "k must be at least 1 and at most max_passages")
        require(self.max_steps >= 1, "max_steps must be at least 1")
        require(min(self.passage_tokens, self.sentence_tokens, self.max_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        thoughts: list[Thought] = []
        query = question
        for number in range(1, self.max_steps + 1):
            with run.span("step", step=number) as step:
                await self._collect(evidence, query, step)
                sentence = await self._reason(question, evidence, thoughts, step)
            if not sentence:
                run.note("reasoning ended", why="the model wrote no further sentence")
                break
            thoughts.append(Thought(text=sentence, query=query))
            run.propose(self._answer(sentence, evidence, thoughts, run))
            if _ENDS.search(sentence):
                break
            query = sentence
        return await self._read(question, evidence, thoughts, run)

    async def _collect(self, evidence: Evidence, query: str, run: Run) -> None:
        room = self.max_passages - len(evidence.passages)
        if room > 0:
            found = await find(run, self.retriever, query, k=self.k)
            evidence.add(evidence.fresh(found)[:room])

    async def _reason(self, question: str, evidence: Evidence, thoughts: list[Thought], run: Run) -> str:
        prompt = render(
            self.prompts.reason,
            question=question,
            passages=self._shown(evidence),
            thoughts=" ".join(thought.text for thought in thoughts),
        )
        sampling = Sampling(temperature=self.temperature, max_tokens=self.sentence_tokens)
        text = await run.ask(self.model, prompt, name="reason", sampling=sampling)
        return first_sentence(text, before=[thought.text for thought in thoughts])

    async def _read(self, question: str, evidence: Evidence, thoughts: list[Thought], run: Run) -> Answer:
        prompt = render(
            self.prompts.answer,
            question=question,
            passages=self._shown(evidence),
            thoughts=" ".join(thought.text for thought in thoughts),
            form=ending(self.form),
        )
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens)
        text = await run.ask(self.model, prompt, name="answer", sampling=sampling)
        return run.propose(self._answer(text, evidence, thoughts, run))

    def _shown(self, evidence: Evidence) -> str:
        markers = range(1, len(evidence.passages) + 1)
        fitting = evidence.fitting(markers, tokens=self.passage_tokens, most=self.context_tokens)
        return evidence.show(fitting, tokens=self.passage_tokens)

    def _answer(self, text: str, evidence: Evidence, thoughts: list[Thought], run: Run) -> Answer:
        shown = range(1, len(evidence.passages) + 1)
        return evidence.answer(text, run, self.form, shown=shown, steps=thoughts)

    def at_budget(self, tokens: int) -> IRCoT:
        """As many paragraphs as two sentences and the answer can read: half of them for the first sentence, all for the others."""
        room = max(0, tokens - self.max_tokens // 2 - 3 * (INSTRUCTIONS + self.sentence_tokens))
        fitting = (most for most in range(self.max_passages, 0, -1) if (_half(most) + 2 * most) * SHORT <= room)
        most = next(fitting, 1)
        limit = max(LEAST_PASSAGE, room * most // (_half(most) + 2 * most))
        longest = min(self.passage_tokens, max(LEAST_PASSAGE, 2 * limit // most))
        return replace(
            self, k=min(self.k, _half(most)), max_passages=most, passage_tokens=longest, context_tokens=limit
        )


def _half(count: int) -> int:
    return (count + 1) // 2


def first_sentence(text: str, *, before: Sequence[str] = ()) -> str:
    """The first sentence that says something new, its white space squeezed; "" where there is none.

    Small models write the reasoning so far once more before they go on.
    """
    squeezed = (" ".join(sentence.split()) for sentence in sentences(text))
    return next((said for said in squeezed if any(map(str.isalnum, said)) and said not in before), "")


METHOD = IRCoT
