"""A model that is its own critic; nothing is retrieved.

Madaan et al. 2023, algorithm 1. Their settings: at most 4 rounds, temperature 0.7, stop when the feedback says that
the answer is correct. In RaR (table 1) it is scaled by the number of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.answers import Answer
from reground.core.run import Run
from reground.methods.shared.prompts import MAY_STAY, STEP_BY_STEP, Templates, conversation, render
from reground.methods.shared.revision import accepted, sound
from reground.methods.shared.settings import NotNegative, Settings
from reground.methods.shared.steps import reasoned


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What each of the three calls asks; each is the next turn of one conversation, so the answer stands above it.

    answer: places {question} and {form}, what an answer looks like. feedback: none. refine: {form}.
    """

    answer: str = STEP_BY_STEP
    feedback: str = (
        "Check the answer. If all of it is correct, write only OK. Else say which steps are wrong and why, in a few "
        "short sentences, and what would be right."
    )
    refine: str = MAY_STAY + " Else write the answer again and take the criticism into account. {form}"


@dataclass(frozen=True, kw_only=True)
class SelfRefine(Settings):
    """Self-Refine: answer, criticise the answer, refine it, until criticism or refinement finds nothing to change.

    All calls are turns of one conversation that only grows. A refinement reads every earlier answer and criticism, as
    in the paper, and a server can reuse what it has read. The criticisms read the history too; in the paper they see
    only the last answer.

    model: the model that answers and criticises. prompts: the templates.
    rounds: maximum number of rounds of feedback and refinement. temperature: temperature of all calls, also feedback.
    feedback_tokens: maximum tokens of a criticism.
    """

    prompts: Prompts = Prompts()
    rounds: NotNegative = 4
    temperature: float = 0.7
    feedback_tokens: int = 256

    LADDER = tuple({"rounds": rounds} for rounds in range(1, 9))

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        form, past = self.form.instruction, list[tuple[str, str]]()
        prompt = render(self.prompts.answer, question=question, form=form)
        text = await run.ask(self.model, prompt, name="answer", sampling=self.sampling())
        answer = run.propose(reasoned(text, self.form))
        for number in range(1, self.rounds + 1):
            with run.span("round", round=number) as turn:
                past.append((prompt, text or "(nothing)"))
                prompt, sampling = render(self.prompts.feedback), self.sampling(self.feedback_tokens)
                feedback = await turn.ask(self.model, conversation(past, prompt), name="feedback", sampling=sampling)
                if sound(feedback):
                    break
                past.append((prompt, feedback or "(nothing)"))
                prompt, sampling = render(self.prompts.refine, form=form), self.sampling()
                (reply,) = await turn.generate(self.model, conversation(past, prompt), name="refine", sampling=sampling)
                revised = accepted(reply, turn, self.form, template=self.prompts.refine, before=text)
                if revised == text.strip() != reply.text.strip():  # it says that nothing has to be changed
                    break
                text = revised or text
                answer = run.propose(reasoned(text, self.form))
        return answer
