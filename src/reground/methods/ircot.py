"""Retrieval and reasoning take turns, a sentence at a time.

Trivedi et al. 2022. Their settings: BM25, 6 paragraphs a step, at most 15 in all. The query is the last sentence of
the reasoning (at first, the question). The loop stops when a sentence says "answer is", or after 8 steps. A reader then
answers from the collected paragraphs. In RaR (table 1) the method is scaled by the number of paragraphs it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import Answer, Thought
from reground.core.run import Run
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CAVEAT, Templates, ending, render
from reground.methods.shared.settings import Positive, Retrieving, require
from reground.methods.shared.steps import squeezed
from reground.text.sentences import sentences

_ENDS = re.compile(r"\banswer\s*(?:is\b|:)", re.IGNORECASE)

_HEAD = (
    "Answer the question with the help of the passages. " + CAVEAT + "\n\n"
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
    """IRCoT: interleave retrieval with the chain of thought; each new sentence is the next query.

    prompts: the templates. k: paragraphs per step. max_passages: maximum number of paragraphs in all.
    max_steps: maximum number of reasoning sentences. sentence_tokens: maximum tokens of a sentence.
    """

    prompts: Prompts = Prompts()
    k: int = 6
    max_passages: int = 15
    max_steps: Positive = 8
    sentence_tokens: int = 96

    LADDER = tuple(
        {"k": k, "max_passages": most, "max_steps": steps}
        for k, most, steps in ((1, 2, 2), (2, 4, 2), (2, 6, 3), (3, 9, 4), (6, 15, 4), (6, 15, 8))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.k <= self.max_passages, "k must be at most max_passages")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence, thoughts, query = Evidence(), list[Thought](), question

        def values() -> dict[str, str]:
            reasoning = " ".join(thought.text for thought in thoughts)
            return {"question": question, "thoughts": reasoning, "form": ending(self.form)}

        def concluding() -> str:
            """The prompt of the answer, with the passages read last."""
            passages = evidence.show(evidence.in_prompt, tokens=self.passage_tokens)
            return render(self.prompts.answer, passages=passages, **values())

        def filled(template: str, run: Run, uses: int = 1) -> str:
            return evidence.fill(template, values(), evidence.all, run, tokens=self.passage_tokens, uses=uses)

        def answer(text: str) -> Answer:
            return run.propose(evidence.answer(text, run, self.form, sources=evidence.in_prompt, steps=thoughts))

        with run.keeping(concluding, reply=self.form.usual):
            for number in range(1, self.max_steps + 1):
                with run.span("step", step=number) as step:
                    room = self.max_passages - len(evidence.passages)
                    if room > 0:
                        evidence.add(evidence.fresh(await find(step, self.retriever, query, k=self.k))[:room])
                    uses = 1 if evidence.in_prompt else 2  # the answer will be written from the same passages
                    prompt = filled(self.prompts.reason, step, uses=uses)
                    sampling = self.sampling(self.sentence_tokens)
                    text = await step.ask(self.model, prompt, name="reason", sampling=sampling)
                sentence = new_sentence(text, before=[thought.text for thought in thoughts])
                if not sentence:
                    run.note("reasoning ended", why="the model wrote no further sentence")
                    break
                # A number that the sentence made up must not name what the next search finds.
                sentence = evidence.checked(sentence, run, self.form)
                thoughts.append(Thought(text=sentence, query=query))
                answer(sentence)
                if _ENDS.search(sentence):
                    break
                query = sentence
        prompt = filled(self.prompts.answer, run)
        run.answer_from = evidence.passages
        return answer(await run.ask(self.model, prompt, name="answer", sampling=self.sampling()))


def new_sentence(text: str, *, before: Sequence[str] = ()) -> str:
    """The first sentence that says something new, its white space squeezed; empty without one.

    Small models repeat the reasoning so far before they continue.
    """
    candidates = map(squeezed, sentences(text))
    return next((each for each in candidates if any(map(str.isalnum, each)) and each not in before), "")
