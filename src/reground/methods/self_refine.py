"""Self-Refine: answer, criticise the answer, refine it, until the criticism finds nothing or the rounds end.

Madaan et al. 2023, algorithm 1. Their settings: at most 4 rounds, temperature 0.7, stop when the feedback says that
the answer is correct. In RaR (table 1) it is scaled by the number of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.language import LanguageModel, Sampling
from reground.core.run import Run
from reground.methods import _prompts
from reground.methods._budget import INSTRUCTIONS
from reground.methods._prompts import render, require
from reground.methods._revision import accepted, sound
from reground.methods.cot import reasoned


@dataclass(frozen=True, kw_only=True)
class Prompts(_prompts.Prompts):
    """What each of the three calls asks.

    answer: places {question} and {form}, what an answer looks like. feedback: {question} and {answer}.
    refine: {question}, {answer}, {feedback} and {form}.
    """

    answer: str = "{question}\n\nThink step by step. Leave a blank line between the steps. {form}"
    feedback: str = (
        "Question:\n{question}\n\nAnswer:\n{answer}\n\nCheck the answer. Say which steps are wrong and why, in a few "
        "short sentences, and what would be right. If all of it is correct, write only OK."
    )
    refine: str = (
        "Question:\n{question}\n\nFirst answer:\n{answer}\n\nCriticism:\n{feedback}\n\n"
        "Write the answer anew and take the criticism into account. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class SelfRefine:
    """A model that is its own critic; nothing is retrieved.

    model: who answers and criticises. form: what an answer looks like. prompts: the templates.
    rounds: the most rounds of feedback and refinement. temperature: of all calls, the feedback's included.
    max_tokens: the most tokens of an answer. feedback_tokens: the most of a criticism.
    """

    model: LanguageModel
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    rounds: int = 4
    temperature: float = 0.7
    max_tokens: int = 512
    feedback_tokens: int = 256

    def __post_init__(self) -> None:
        require(self.rounds >= 0, "rounds must be at least 0")
        require(min(self.max_tokens, self.feedback_tokens) >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        form = self.form.instruction
        prompt = render(self.prompts.answer, question=question, form=form)
        text = await run.ask(self.model, prompt, name="answer", sampling=self._sampling(self.max_tokens))
        answer = run.propose(reasoned(text, self.form))
        for number in range(1, self.rounds + 1):
            with run.span("round", round=number) as turn:
                prompt = render(self.prompts.feedback, question=question, answer=text)
                sampling = self._sampling(self.feedback_tokens)
                feedback = await turn.ask(self.model, prompt, name="feedback", sampling=sampling)
                if sound(feedback):
                    break
                prompt = render(self.prompts.refine, question=question, answer=text, feedback=feedback, form=form)
                sampling = self._sampling(self.max_tokens)
                (reply,) = await turn.generate(self.model, prompt, name="refine", sampling=sampling)
                text = accepted(reply, turn, self.form, prompt=prompt) or text
                answer = run.propose(reasoned(text, self.form))
        return answer

    def at_budget(self, tokens: int) -> SelfRefine:
        """As many rounds as fit, each reckoned as a criticism and an answer of half their length that both read the last answer."""
        answer, feedback = self.max_tokens // 2, self.feedback_tokens // 2
        each = 2 * INSTRUCTIONS + 3 * answer + 2 * feedback
        return replace(self, rounds=max(1, (tokens - INSTRUCTIONS - answer) // each))

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(temperature=self.temperature, max_tokens=max_tokens)


METHOD = SelfRefine
