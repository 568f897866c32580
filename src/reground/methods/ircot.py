"""IRCoT: interleave retrieval with the chain of thought; each new sentence is the next query.

Trivedi et al. 2022. Their settings: BM25, 6 paragraphs a step, at most 15 in all. The query is the last sentence of
the reasoning (at first, the question). The loop stops when a sentence says "answer is", or after 8 steps. A reader then
answers from the collected paragraphs. In RaR (table 1) the method is scaled by the number of paragraphs it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import Answer, Thought
from reground.core.run import Run
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import QUOTED, Templates, ending, render
from reground.methods.shared.settings import Retrieving, require
from reground.text.sentences import sentences

_ENDS = re.compile(r"\banswer\s*(?:is\b|:)", re.IGNORECASE)

_HEAD = (
    "Answer the question with the help of the passages. " + QUOTED + "\n\n"
    "{passages}\n\nQuestion:\n{question}\n\nReasoning:\n{thoughts}\n\n"
)


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
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
class IRCoT(Retrieving):
    """Retrieval and reasoning take turns, a sentence at a time.

    prompts: the templates. k: paragraphs per step. max_passages: maximum number of paragraphs in all.
    max_steps: maximum number of reasoning sentences. sentence_tokens: maximum tokens of a sentence.
    """

    prompts: Prompts = Prompts()
    k: int = 6
    max_passages: int = 15
    max_steps: int = 8
    sentence_tokens: int = 96

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.k <= self.max_passages, "k must be at most max_passages")
        require(self.max_steps >= 1, "max_steps must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        thoughts: list[Thought] = []
        query = question
        with run.keeping(lambda: self._concluding(question, evidence, thoughts), reply=self.form.usual):
            for number in range(1, self.max_steps + 1):
                with run.span("step", step=number) as step:
                    room = self.max_passages - len(evidence.passages)
                    if room > 0:
                        evidence.add(evidence.fresh(await find(step, self.retriever, query, k=self.k))[:room])
                    sentence = await self._reason(question, evidence, thoughts, step)
                if not sentence:
                    run.note("reasoning ended", why="the model wrote no further sentence")
                    break
                # A number that the sentence made up must not name what the next search finds.
                sentence = evidence.checked(sentence, run, self.form)
                thoughts.append(Thought(text=sentence, query=query))
                run.propose(self._answer(sentence, evidence, thoughts, run))
                if _ENDS.search(sentence):
                    break
                query = sentence
        return await self._read(question, evidence, thoughts, run)

    async def _reason(self, question: str, evidence: Evidence, thoughts: list[Thought], run: Run) -> str:
        parts = {"question": question, "thoughts": _joined(thoughts)}
        uses = 1 if evidence.held else 2  # the answer will be written from the same passages
        prompt = evidence.fill(self.prompts.reason, parts, evidence.all, run, tokens=self.passage_tokens, uses=uses)
        sampling = self.sampling(self.sentence_tokens)
        text = await run.ask(self.model, prompt, name="reason", sampling=sampling)
        return new_sentence(text, before=[thought.text for thought in thoughts])

    async def _read(self, question: str, evidence: Evidence, thoughts: list[Thought], run: Run) -> Answer:
        parts = {"question": question, "thoughts": _joined(thoughts), "form": ending(self.form)}
        prompt = evidence.fill(self.prompts.answer, parts, evidence.all, run, tokens=self.passage_tokens)
        text = await run.ask(self.model, prompt, name="answer", sampling=self.sampling())
        return run.propose(self._answer(text, evidence, thoughts, run))

    def _concluding(self, question: str, evidence: Evidence, thoughts: list[Thought]) -> str:
        """The prompt of the answer, with the passages read last."""
        passages = evidence.show(evidence.held, tokens=self.passage_tokens)
        parts = {"question": question, "thoughts": _joined(thoughts), "form": ending(self.form)}
        return render(self.prompts.answer, passages=passages, **parts)

    def _answer(self, text: str, evidence: Evidence, thoughts: list[Thought], run: Run) -> Answer:
        return evidence.answer(text, run, self.form, shown=evidence.held, steps=thoughts)

    def sizes(self) -> Sequence[IRCoT]:
        """More paragraphs, and more sentences to find them by."""
        ladder = ((1, 2, 2), (2, 4, 2), (2, 6, 3), (3, 9, 4), (6, 15, 4), (6, 15, 8))
        return [replace(self, k=k, max_passages=most, max_steps=steps) for k, most, steps in ladder]


def _joined(thoughts: Sequence[Thought]) -> str:
    return " ".join(thought.text for thought in thoughts)


def new_sentence(text: str, *, before: Sequence[str] = ()) -> str:
    """The first sentence that says something new, its white space squeezed; empty without one.

    Small models repeat the reasoning so far before they continue.
    """
    squeezed = (" ".join(sentence.split()) for sentence in sentences(text))
    return next((sentence for sentence in squeezed if any(map(str.isalnum, sentence)) and sentence not in before), "")


METHOD = IRCoT
