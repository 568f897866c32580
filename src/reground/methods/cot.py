"""CoT: zero-shot chain of thought, step by step and then the answer, in one call.

Kojima et al. 2022; the CoT baseline of RAT (table 1) and RaR.
"""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling
from reground.core.run import Run
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.prompts import render, require
from reground.methods.shared.steps import split_answer, split_steps


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`answer`: places {question} and {form}, the sentence that says what an answer looks like."""

    answer: str = "{question}\n\nThink step by step. Leave a blank line between the steps. {form}"


@dataclass(frozen=True, kw_only=True)
class ChainOfThought:
    """One call that reasons before it answers.

    model: the model that answers. form: the form of the answer. prompts: the template.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of reasoning and answer together.
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
        prompt = render(self.prompts.answer, question=question, form=self.form.instruction)
        return run.propose(reasoned(await run.ask(self.model, prompt, name="answer", sampling=sampling), self.form))


def reasoned(response: str, form: AnswerForm) -> Answer:
    """A response with its reasoning as steps."""
    reasoning, _ = split_answer(response, form)
    return Answer(text=response, steps=tuple(Thought(text=step) for step in split_steps(reasoning)))


METHOD = ChainOfThought
