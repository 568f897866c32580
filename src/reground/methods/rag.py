"""RAG: retrieve k passages with the question as the query, then answer from them in one call.

Lewis et al. 2020; RAG-1 and RAG-5 ("n-shot") in RAT (table 1) and RaR (table 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.citations import only_markers
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling
from reground.core.run import Run
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CITING, QUOTED, ending, require

DOCUMENTS = (1, 2, 3, 5, 8, 11, 16, 24)
"""Numbers of passages worth trying. Which is best depends on the model: more may hide the passage that answers."""

_QUOTE = (
    "First copy the sentences of the passages that hold the answer, in quotation marks, each with the number of its "
    "passage, like [1]."
)


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`answer`: places {question}, {passages} and {form}, how the answer is stated and cited."""

    answer: str = (
        "{passages}\n\n"
        + QUOTED
        + "\n\nQuestion:\n{question}\n\nAnswer the question with the help of the passages. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class RAG:
    """Retrieve once, then read and answer.

    model, retriever: the model that answers, and the index to search. form: the form of the answer.
    prompts: the template. k: number of passages; 5 as in RAG-5.
    quote: whether an answer begins with the sentences that hold it, in forms that cite (Menick et al. 2022).
    passage_tokens: maximum length of a passage in tokens; the default is the papers' longest piece.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of the answer.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    k: int = 5
    quote: bool = False
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(self.k >= 1, "k must be at least 1")
        require(min(self.passage_tokens, self.max_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        evidence.add(await find(run, self.retriever, question, k=self.k))  # z, the top k of p(z|x)
        text = await self._answer(question, evidence, stated(self.form, quote=self.quote), run)  # y, by p(y|x,z)
        if only_markers(text, most=len(evidence.passages)):
            # Asked to cite, a small model may answer "which of the two" with the number of a passage.
            with run.optional():
                text = await self._answer(question, evidence, self.form.short, run)
        return run.propose(evidence.answer(text, run, self.form, shown=evidence.held))

    async def _answer(self, question: str, evidence: Evidence, form: str, run: Run) -> str:
        parts = {"question": question, "form": form}
        prompt = evidence.fill(self.prompts.answer, parts, evidence.all, run, tokens=self.passage_tokens)
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens)
        return await run.ask(self.model, prompt, name="answer", sampling=sampling)

    def sizes(self) -> Sequence[RAG]:
        """More passages."""
        return [replace(self, k=k) for k in DOCUMENTS]


def stated(form: AnswerForm, *, quote: bool) -> str:
    """How an answer from passages is stated: behind quotes of them, else as the form concludes."""
    return f"{_QUOTE} {form.instruction}" if quote and form.name in CITING else ending(form)


METHOD = RAG
PRESETS = {"one": {"k": 1}}
"""RAG-1."""
