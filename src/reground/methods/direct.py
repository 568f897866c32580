"""Direct: the question, the form of the answer, one call. DIRECT in RAT, table 1, and RaR, table 1."""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling
from reground.core.run import Run
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.prompts import render, require


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`answer`: places {question} and {form}, the sentence that says what an answer looks like."""

    answer: str = "{question}\n\n{form}"


@dataclass(frozen=True, kw_only=True)
class Direct:
    """One call, no reasoning asked for, nothing retrieved.

    model: the model that answers. form: the form of the answer. prompts: the template.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of the answer.
    """

    model: LanguageModel
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(self.max_tokens >= 1, "max_tokens must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens)
        prompt = render(self.prompts.answer, question=question, form=self.form.short)
        return run.propose(Answer(text=await run.ask(self.model, prompt, name="answer", sampling=sampling)))


METHOD = Direct
