"""Long-form answers judged by a model, after the auto-eval of ReST meets ReAct (section 4.2, listing 7).

The judge sees five worked judgements as Python, then the question, the answer and the reference, and says whether the
answer implies the reference. The worked ones are earlier turns of the conversation: small models keep to a form that
way, and copy what stands in one prompt with the question. Where no reference decides, the judge gives a mark from 1 to
5 by the task's criteria. The paper's mean and standard deviation over ten runs come from the repeats of an evaluation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import ParseError
from reground.core.journal import Journal, fingerprint
from reground.core.language import LanguageModel, Message, Prompt, Sampling
from reground.core.programs import Sandbox
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.core.untrusted import neutralise
from reground.evaluation.data import fields, read_values, worked
from reground.evaluation.task import NO_ANSWER, Example, Score, Task, answer_of, as_read, criteria_of

METRIC = "auto-eval"
MARKS = 5
MAX_TOKENS = 150
"""Of a judgement."""

INSTRUCTION = (
    "Judge an answer: it is right if it implies what the reference says, whatever its words. Reply with two lines of "
    "Python: a comment that gives the reason, then `implied = True` or `implied = False`."
)
_MARK_INSTRUCTION = (
    f'"""Judge how well an answer does what is asked, by these criteria: {{criteria}}. A mark is a whole number from 1 '
    f'(bad) to {MARKS} (very good); 3 is middling."""'
)


def judge_prompt(question: str, answer: str, reference: str) -> tuple[Message, ...]:
    """The conversation, with the fixed part first and the answer last."""

    def question_turn(**texts: str) -> Message:
        return Message(role="user", content=f"{INSTRUCTION}\n\n{_literals(**texts)}")

    turns: list[Message] = []
    for each in worked("judgement"):
        turns.append(question_turn(**{name: each[name] for name in ("question", "answer", "reference")}))
        reply = f"# {each['reasoning']}\nimplied = {each['verdict']}"
        turns.append(Message(role="assistant", content=reply))
    return (*turns, question_turn(question=question, answer=answer, reference=reference))


def quality_prompt(question: str, answer: str, criteria: str) -> str:
    """The prompt for a mark by criteria, without a reference."""
    judged = _literals(question=question, answer=answer)
    close = f"Continue with two lines: a comment that gives the reason, then `mark = ` and 1 to {MARKS}."
    return f"{_MARK_INSTRUCTION.format(criteria=criteria)}\n\n{judged}\n\n{close}"


def _literals(**texts: str) -> str:
    """Texts as Python's string literals, so an answer cannot end its line and speak as the judge."""
    return "\n".join(f"{name} = {neutralise(text)!r}" for name, text in texts.items())


def parse_verdict(reply: str) -> bool:
    """The first `implied = True` or `implied = False`. A base model may continue with made-up judgements.

    Raises ParseError.
    """
    value = _assigned(reply, "implied")
    if not isinstance(value, bool):
        raise ParseError("there is no line `implied = True` or `implied = False`.")
    return value


def parse_mark(reply: str) -> float:
    """The first `mark = N`, from 0 for the lowest mark to 1 for the highest. Raises ParseError."""
    value = _assigned(reply, "mark")
    if type(value) is not int or not 1 <= value <= MARKS:
        raise ParseError(f"there is no line `mark = N` with a whole number from 1 to {MARKS}.")
    return (value - 1) / (MARKS - 1)


def _assigned(reply: str, name: str) -> object:
    """The value of the first line `name = value`: a Python literal, or None; nothing is evaluated.

    Without such a line it may stand in backticks within a sentence, if no other value does.
    """
    line = re.search(rf"^[ \t\r`]*+{name}\s*+(?::\s*+\w++\s*+)?+=\s*+([^#\n`]*)", reply, re.MULTILINE)
    values = [line[1]] if line is not None else re.findall(rf"`{name}\s*+=\s*+([^\n`]*+)`", reply)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(values[0].strip()) if len(set(values)) == 1 else None
    return None


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A model that rates answers, once and greedily."""

    model: LanguageModel

    async def rate(
        self, question: str, gold: str | Sequence[str], answer: str, run: Run, *, criteria: str = ""
    ) -> float | None:
        """Rate one answer against its reference, or against several that mean the same: 1 if it implies it, else 0.

        criteria: rate by these instead, without a reference: a mark from 1 to 5, given as 0 to 1.

        An unreadable rating is tried once more; None where that is unreadable too. Raises the run's ModelError and
        BudgetExceeded.
        """
        reference = gold if isinstance(gold, str) else " or ".join(dict.fromkeys(gold))
        prompt: Prompt = judge_prompt(question, answer, reference)
        parse: Callable[[str], float] = parse_verdict
        if criteria:
            prompt, parse = quality_prompt(question, answer, criteria), parse_mark
        # the second attempt is not greedy, because a greedy judge would repeat itself
        for name, temperature in (("judge", 0.0), ("judge again", 0.5)):
            sampling = Sampling(temperature=temperature, max_tokens=MAX_TOKENS)
            with suppress(ParseError):
                return float(await run.parse(self.model, prompt, parse, name=name, attempts=1, sampling=sampling))
        return None


_LABEL = fields(id=str, rating=Annotated[float, Field(allow_inf_nan=False)])


def read_labels(path: Path) -> dict[str, float]:
    """Human labels, JSONL {"id", "rating"}; several ratings of one id are averaged.

    Ratings are numbers or true and false. Raises DataError naming the line.
    """
    ratings: dict[str, list[float]] = {}
    for _, label in read_values(path, _LABEL):
        ratings.setdefault(label.id, []).append(label.rating)
    return {item: fmean(values) for item, values in ratings.items()}


@dataclass(frozen=True, kw_only=True)
class JudgedTask:
    """A task with long answers, scored by a judge and by the task's own metrics; all else is the task's.

    The judge compares answers with the references, or marks them by the task's criteria where it has any.

    journal: opens the journal of the judgements, or gives the open one. These have their own costs.
    """

    task: Task
    judge: Judge
    journal: Callable[[], Journal]
    primary: str = METRIC

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "task":
            raise AttributeError(name)
        return getattr(self.task, name)

    @property
    def form(self) -> AnswerForm:
        """Free text, or the task's own form where the answer is judged by criteria."""
        return self.task.form if criteria_of(self.task) else TEXT

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """The judge's rating, and the task's own scores."""
        answer = answer_of(trajectory)
        if answer.strip():
            judgement = fingerprint("judged", trajectory.method, trajectory.id, answer)
            run = Run(run_id="judge", question_id=judgement, journal=self.journal())
            text, criteria = as_read(self.task, answer), criteria_of(self.task)
            rating = await self.judge.rate(example.question, example.golden_answers, text, run, criteria=criteria)
            score = Score(value=rating, why="" if rating is not None else "no rating of the judge could be read")
        else:
            score = NO_ANSWER
        return {METRIC: score, **await self.task.score(example, trajectory, sandbox)}
