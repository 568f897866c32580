"""Few-shot CoT: worked examples before the question, each with its reasoning.

Wei et al. 2022; a baseline of RaR (table 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from reground.core.answers import TEXT, Answer, AnswerForm, Demonstration
from reground.core.language import REPLY_TOKENS, LanguageModel, Message, Sampling, tokens_of
from reground.core.run import Run
from reground.methods.cot import reasoned
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.demonstrations import general
from reground.methods.shared.prompts import render, require
from reground.methods.shared.steps import join_steps


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """`answer`, for the examples and the question alike: places {question} and {form}."""

    answer: str = "{question}\n\nThink step by step. Leave a blank line between the steps. {form}"


@dataclass(frozen=True, kw_only=True)
class FewShotChainOfThought:
    """Worked examples as earlier turns of the conversation, then the question.

    model: the model that answers. form: the form of the answer. prompts: the template.
    demonstrations: the worked examples, never taken from the evaluated data; None uses general examples that suit
    the form. shots: number of examples shown, the first ones; None shows all.
    temperature: sampling temperature; 0 is greedy. max_tokens: maximum tokens of reasoning and answer together.
    """

    model: LanguageModel
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    demonstrations: tuple[Demonstration, ...] | None = None
    shots: int | None = None
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(self.max_tokens >= 1, "max_tokens must be at least 1")
        require(self.shots is None or self.shots >= 1, "shots must be at least 1")
        require(self.demonstrations != (), "few-shot prompting needs at least one demonstration")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        messages = self._conversation(question, run)
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens)
        response = await run.ask(self.model, messages, name="answer", sampling=sampling)
        return run.propose(self._answer(response))

    def _conversation(self, question: str, run: Run) -> list[Message]:
        """The examples and the question. Under a limit the last examples make room for the answer."""
        messages = []
        for example in self._examples()[: self.shots]:
            messages += [self._turn(example.question), Message(role="assistant", content=self._shown(example))]
        messages.append(self._turn(question))
        room = run.room()
        while room is not None and len(messages) > 1 and tokens_of(messages) + self.form.usual > room:
            del messages[-3:-1]
        return messages

    def sizes(self) -> Sequence[Self]:
        """More examples."""
        return [replace(self, shots=shots) for shots in range(1, len(self._examples()) + 1)]

    def _examples(self) -> tuple[Demonstration, ...]:
        return general(self.form) if self.demonstrations is None else self.demonstrations

    def _shown(self, example: Demonstration) -> str:
        return shown(example, self.form)

    def _answer(self, response: str) -> Answer:
        return reasoned(response, self.form)

    def _turn(self, question: str) -> Message:
        prompt = render(self.prompts.answer, question=question, form=self.form.instruction)
        return Message(role="user", content=prompt)


def shown(example: Demonstration, form: AnswerForm) -> str:
    """An example's reasoning and answer as a response in the form."""
    if form.draft_is_query:
        return join_steps([example.reasoning, f"```python\n{form.extract(example.answer)}\n```"])
    return join_steps([example.reasoning, f"Answer: {example.answer}" if form.final_pass else example.answer])


METHOD = FewShotChainOfThought
