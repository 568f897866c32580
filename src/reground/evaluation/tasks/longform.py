"""Long-form answers judged by a model, after the auto-eval of ReST meets ReAct (section 4.2, listing 7).

The judge sees five worked judgements as Python, then the question, the answer and the reference, and says whether the
answer implies the reference. The worked ones are earlier turns of the conversation: small models keep to a form that
way, and copy what stands in one prompt with the question. The paper's mean and standard deviation are over ten runs
of the agent with one rating per answer; here they come from the repeats of an evaluation (`MetricSummary.std`). The
judge's agreement with people is measured on a file of human labels.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from statistics import fmean, stdev

from reground.core.answers import TEXT, AnswerForm, Demonstration
from reground.core.errors import ConfigurationError, DataError, ParseError
from reground.core.language import LanguageModel, Message, Prompt, Sampling
from reground.core.programs import Sandbox
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.core.untrusted import neutralise
from reground.evaluation.data import numbered_records, worked
from reground.evaluation.metrics.agreement import Agreement, agreement
from reground.evaluation.task import Example, Score, Task, as_read, criteria_of, hidden_documents

MARKS = 5

_INSTRUCTION = (
    f'"""Judge how well an answer does what is asked, by these criteria: {{criteria}}. A mark is a whole number from 1 '
    f'(bad) to {MARKS} (very good); 3 is middling."""'
)
_MARK = re.compile(r"^[ \t\r`]*+mark\s*+(?::\s*+int\s*+)?+=\s*+([^#\n`]*)", re.MULTILINE)


def quality_prompt(question: str, answer: str, criteria: str) -> str:
    """The prompt. Texts are string literals, so an answer cannot end its line and speak as the judge."""
    return "\n\n".join(
        [
            _INSTRUCTION.format(criteria=criteria),
            f"question = {neutralise(question)!r}\nanswer = {neutralise(answer)!r}",
            f"Continue with two lines: a comment that gives the reason, then `mark = ` and 1 to {MARKS}.",
        ]
    )


def parse_mark(reply: str) -> float:
    """The first `mark = N`, from 0 for the lowest mark to 1 for the highest. Raises ParseError."""
    found = _MARK.search(reply)
    if found is None:
        raise ParseError("there is no line `mark = N`.")
    said = found[1].strip()
    if said not in map(str, range(1, MARKS + 1)):
        raise ParseError(f"`mark` must be a whole number from 1 to {MARKS}.")
    return (int(said) - 1) / (MARKS - 1)


METRIC = "auto-eval"
_AGAIN = 0.5
"""Temperature of a second attempt, because a greedy judge would repeat itself."""


@dataclass(frozen=True)
class Exemplar:
    """A worked judgement. The reasoning comes before the verdict, so that the judge reasons first."""

    question: str
    answer: str
    reference: str
    reasoning: str
    verdict: bool


EXEMPLARS = tuple(Exemplar(**each) for each in worked("judgement"))

INSTRUCTION = (
    "Judge an answer: it is right if it implies what the reference says, whatever its words. Reply with two lines of "
    "Python: a comment that gives the reason, then `implied = True` or `implied = False`."
)


def render(question: str, answer: str, reference: str) -> str:
    """What is judged, as Python. Texts are string literals, so an answer cannot end its line."""
    named = (("question", question), ("answer", answer), ("reference", reference))
    return "\n".join(f"{name} = {neutralise(text)!r}" for name, text in named)


def judge_prompt(
    question: str, answer: str, reference: str, exemplars: Sequence[Exemplar] = EXEMPLARS
) -> tuple[Message, ...]:
    """The conversation, with the fixed part first and the answer last."""
    turns: list[Message] = []
    for each in exemplars:
        said = f"# {each.reasoning}\nimplied = {each.verdict}"
        turns += _asked(each.question, each.answer, each.reference), Message(role="assistant", content=said)
    return (*turns, _asked(question, answer, reference))


def _asked(question: str, answer: str, reference: str) -> Message:
    return Message(role="user", content=f"{INSTRUCTION}\n\n{render(question, answer, reference)}")


def parse_verdict(reply: str) -> bool:
    """The first `implied = True` or `implied = False`. A base model may continue with made-up judgements.

    Raises ParseError.
    """
    value = assigned(reply, "implied", "`implied = True` or `implied = False`")
    if not isinstance(value, bool):
        raise ParseError("`implied` must be True or False.")
    return value


def assigned(reply: str, name: str, form: str) -> object:
    """The value of the first line `name = value`: a Python literal, or None; nothing is evaluated.

    Without such a line it may stand in backticks within a sentence, if no other value does. form: how the line looks,
    for the error. Raises ParseError where there is neither.
    """
    found = _assignment(name).search(reply)
    said = [found[1]] if found is not None else _within(name).findall(reply)
    if len(set(said)) != 1:
        raise ParseError(f"there is no line {form}.")
    try:
        value: object = ast.literal_eval(said[0].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    return value


@cache
def _assignment(name: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t\r`]*+{name}\s*+(?::\s*+\w++\s*+)?+=\s*+([^#\n`]*)", re.MULTILINE)


@cache
def _within(name: str) -> re.Pattern[str]:
    return re.compile(rf"`{name}\s*+=\s*+([^\n`]*+)`")


@dataclass(frozen=True)
class Judgement:
    """One answer's ratings in the order of the samples: 1 for implied, 0 for not, None for an unreadable one.

    mean: over the readable ones; None without any. spread: their sample standard deviation, 0 for a single rating. It
    measures the judge's uncertainty about this answer, not the difference between runs of a method.
    """

    mean: float | None
    spread: float
    ratings: tuple[float | None, ...]

    @classmethod
    def of(cls, ratings: Sequence[float | None]) -> Judgement:
        """Summarise ratings."""
        known = [rating for rating in ratings if rating is not None]
        return cls(fmean(known) if known else None, stdev(known) if len(known) > 1 else 0.0, tuple(ratings))


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A model that rates answers.

    ratings: number of ratings per answer; 1 in the paper. temperature: must be above 0 for several ratings, which would
    otherwise be equal.
    """

    model: LanguageModel
    ratings: int = 1
    temperature: float = 0.0
    max_tokens: int = 150
    exemplars: tuple[Exemplar, ...] = field(default=EXEMPLARS)

    def __post_init__(self) -> None:
        if self.ratings < 1 or (self.ratings > 1 and self.temperature <= 0):
            raise ConfigurationError("ratings must be at least 1, and several need a temperature above 0")

    async def rate(
        self, question: str, gold: str | Sequence[str], answer: str, run: Run, *, criteria: str = ""
    ) -> Judgement:
        """Rate one answer against its reference, or against several that mean the same.

        criteria: rate by these instead, without a reference: a mark from 1 to 5, given as 0 to 1.

        All ratings are samples of one call, so the prompt is paid once. An unreadable rating is tried once more. Raises
        the run's ModelError and BudgetExceeded.
        """
        reference = gold if isinstance(gold, str) else " or ".join(dict.fromkeys(gold))
        prompt: Prompt = judge_prompt(question, answer, reference, self.exemplars)
        parse: Callable[[str], float] = parse_verdict
        if criteria:
            prompt, parse = quality_prompt(question, answer, criteria), parse_mark
        sampling = Sampling(n=self.ratings, temperature=self.temperature, max_tokens=self.max_tokens)
        replies = await run.generate(self.model, prompt, name="judge", sampling=sampling)
        ratings: list[float | None] = []
        for reply in replies:
            try:
                ratings.append(float(parse(reply.text)))
            except ParseError:
                ratings.append(await self._again(prompt, parse, run))
        return Judgement.of(ratings)

    async def _again(self, prompt: Prompt, parse: Callable[[str], float], run: Run) -> float | None:
        sampling = Sampling(temperature=self.temperature or _AGAIN, max_tokens=self.max_tokens)
        try:
            return float(await run.parse(self.model, prompt, parse, name="judge again", attempts=1, sampling=sampling))
        except ParseError:
            return None


def read_labels(path: Path) -> dict[str, float]:
    """Human labels, JSONL {"id", "rating"}; several ratings of one id are averaged.

    Ratings are numbers or true and false. Raises DataError naming the line.
    """
    ratings: dict[str, list[float]] = {}
    for line, record in numbered_records(path, ("id", "rating")):
        rating = record["rating"]
        if not isinstance(rating, bool | int | float) or not isfinite(rating):
            raise DataError(f"the rating {rating!r} is not a number", path=path, line=line)
        ratings.setdefault(str(record["id"]), []).append(float(rating))
    return {item: fmean(values) for item, values in ratings.items()}


def agreement_with_people(judgements: Mapping[str, Judgement], labels: Mapping[str, float]) -> Agreement:
    """Pearson's and Spearman's correlation of the judge's means with the human labels, by id."""
    means = {item: each.mean for item, each in judgements.items() if each.mean is not None}
    return agreement(means, labels)


@dataclass(frozen=True, kw_only=True)
class JudgedTask:
    """A task with long answers, scored by a judge and by the task's own metrics.

    The judge compares answers with the references, or marks them by the task's criteria where it has any.

    open_run: opens, as a coroutine, a new `Run` for the judgement of one answer, with its own journal and costs.
    """

    task: Task
    judge: Judge
    open_run: Callable[[Example, Trajectory], Awaitable[Run]]
    primary: str = METRIC

    @property
    def name(self) -> str:
        """The judged task's name."""
        return self.task.name

    @property
    def form(self) -> AnswerForm:
        """Free text, or the task's own form where the answer is judged by criteria."""
        return self.task.form if criteria_of(self.task) else TEXT

    def examples(self) -> Sequence[Example]:
        """The task's examples."""
        return self.task.examples()

    def hidden(self, example: Example) -> frozenset[str]:
        """The documents that the task hides, whoever judges."""
        return hidden_documents(self.task, example)

    def demonstrations(self) -> Sequence[Demonstration]:
        """The task's demonstrations."""
        return self.task.demonstrations()

    def solutions(self) -> Sequence[str]:
        """The task's solutions."""
        return self.task.solutions()

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """The judge's mean rating, and the task's own scores."""
        return {METRIC: await self._judged(example, trajectory), **await self.task.score(example, trajectory, sandbox)}

    async def _judged(self, example: Example, trajectory: Trajectory) -> Score:
        if trajectory.answer is None or not trajectory.answer.text.strip():
            return Score(value=None, why="there is no answer")
        run = await self.open_run(example, trajectory)
        said, criteria = as_read(self.task, trajectory.answer.text), criteria_of(self.task)
        found = await self.judge.rate(example.question, example.golden_answers, said, run, criteria=criteria)
        return Score(value=found.mean, why="" if found.mean is not None else "no rating of the judge could be read")
