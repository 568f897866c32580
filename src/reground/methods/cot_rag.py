"""CoT+RAG: reason first, retrieve once with the whole reasoning as the query, then answer from the passages.

The middle row of RAT, table 3, and RaR, table 2: retrieval by reasoning, but not step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling
from reground.core.run import Run
from reground.methods.cot import reasoned
from reground.methods.rag import DOCUMENTS
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import QUOTED, cite, render, require


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`reason`: places {question} and {form}. `answer`: {question}, {reasoning}, {passages}, {form} and {cite}."""

    reason: str = "{question}\n\nThink step by step. Leave a blank line between the steps. {form}"
    answer: str = (
        "Answer the question with the help of the passages. " + QUOTED + "\n\n"
        "Question:\n{question}\n\nFirst thoughts, which may hold errors:\n{reasoning}\n\n{passages}\n\n"
        "Check the thoughts against the passages and answer the question. {cite} {form}"
    )


@dataclass(frozen=True, kw_only=True)
class ChainOfThoughtRAG:
    """Reason, retrieve with the reasoning, answer.

    model, retriever: the model that answers, and the index to search. form: the form of the answer.
    prompts: the templates. k: number of passages. passage_tokens: maximum length of a passage in tokens.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of the reasoning, and of the answer.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    k: int = 5
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(self.k >= 1, "k must be at least 1")
        require(min(self.passage_tokens, self.max_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens)
        prompt = render(self.prompts.reason, question=question, form=self.form.instruction)
        reasoning = await run.ask(self.model, prompt, name="reason", sampling=sampling)
        evidence = Evidence()
        reasoning = evidence.checked(reasoning, run, self.form)  # nothing was read yet
        thoughts = run.propose(reasoned(reasoning, self.form)).steps
        markers = evidence.add(await find(run, self.retriever, reasoning.strip() or question, k=self.k))
        parts = {"question": question, "reasoning": reasoning, "form": self.form.instruction, "cite": cite(self.form)}
        prompt = evidence.fill(self.prompts.answer, parts, markers, run, tokens=self.passage_tokens)
        text = await run.ask(self.model, prompt, name="answer", sampling=sampling)
        return run.propose(evidence.answer(text, run, self.form, shown=evidence.held, steps=thoughts))

    def sizes(self) -> Sequence[ChainOfThoughtRAG]:
        """More passages."""
        return [replace(self, k=k) for k in DOCUMENTS]


METHOD = ChainOfThoughtRAG
