"""RAG: retrieve k passages with the question as the query, then answer from them in one call.

Lewis et al. 2020; RAG-1 and RAG-5 ("n-shot") in RAT (table 1) and RaR (table 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling
from reground.core.run import Run
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import QUOTED, ending, require
from reground.methods.shared.reading import Reading

DOCUMENTS = (1, 2, 3, 5, 8, 11, 16, 24)
"""Numbers of passages worth trying. Which is best depends on the model: more may hide the passage that answers."""


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`answer`: places {question}, {passages} and {form}, how the answer is stated and cited."""

    answer: str = (
        "{passages}\n\n"
        + QUOTED
        + "\n\nQuestion:\n{question}\n\nAnswer the question with the help of the passages. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class RAG(Reading):
    """Retrieve once, then read and answer. How an answer is read: see `reground.methods.shared.reading`.

    model, retriever: the model that answers, and the index to search. form: the form of the answer.
    prompts: the template. k: number of passages; 5 as in RAG-5.
    passage_tokens: maximum length of a passage in tokens; the default is the papers' longest piece.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of the answer.
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
        super().__post_init__()
        require(self.k >= 1, "k must be at least 1")
        require(min(self.passage_tokens, self.max_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        markers = evidence.add(await find(run, self.retriever, question, k=self.k))
        reply = await self.read(
            self.prompts.answer,
            question,
            evidence,
            markers,
            run,
            model=self.model,
            form=self.form,
            plain=ending(self.form),
            name="answer",
            tokens=self.passage_tokens,
            sampling=Sampling(temperature=self.temperature, max_tokens=self.max_tokens),
        )
        return run.propose(evidence.answer(reply.text, run, self.form, shown=evidence.held))

    def sizes(self) -> Sequence[RAG]:
        """More passages."""
        return [replace(self, k=k) for k in DOCUMENTS]


METHOD = RAG
PRESETS = {"one": {"k": 1}, "cautious": {"abstain": True, "by_words": "silence"}}
"""RAG-1, and RAG that says so where the passages do not hold the answer."""
