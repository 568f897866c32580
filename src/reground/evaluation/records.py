"""The data of the results store: a run's configuration, its scored questions and its summary."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from reground.core.budget import Budget
from reground.core.language import LATER, Json, Text, Usage, Value
from reground.core.trajectory import Failure
from reground.evaluation.stages import Stage
from reground.evaluation.task import Score

FORMAT = 1


class RunConfig(Value):
    """The identity of a run: two runs with equal configurations do the same work.

    data: a fingerprint of all examples of the split, to notice changed data.
    settings: the method's. model_settings: options that change a model's replies; never a key.
    ids: the questions to choose from, None for all. limit: the number chosen, None for all. repeats: runs of each
    question.
    """

    format: Literal[1] = 1
    task: str
    data: str
    primary: str
    form: str
    method: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    model: str
    model_settings: dict[str, JsonValue] = Field(default_factory=dict)
    retriever: str | None = None
    budget: Budget = Budget()
    seed: int = 0
    ids: tuple[str, ...] | None = None
    limit: int | None = None
    repeats: int = 1


class Record(Value):
    """The scores of one question and repeat.

    failure: why there is no answer; then there are no scores. scoring: why an answer could not be scored; a resumed run
    tries again. answer: the beginning of the short answer that was compared. whole: a fingerprint of all of it, if
    it is longer. cut: whether the length limit cut the last reply.
    stages: cost by the name of the step; older runs have none until they are scored again.
    """

    id: str
    example: str
    repeat: int
    scores: dict[str, Score] = Field(default_factory=dict)
    answer: Text = ""
    whole: Annotated[str, LATER] = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    failure: Failure | None = None
    stopped: str | None = None
    cut: bool = False
    scoring: Text | None = None
    stages: dict[str, Stage] = Field(default_factory=dict)
    metadata: dict[Text, Json] = Field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """The metric's value; None if it failed or is unscored."""
        score = self.scores.get(metric)
        return None if score is None else score.value


class MetricSummary(Value):
    """One metric over a run.

    mean, low, high: over the scored questions, with the 95 % bootstrap interval.
    scored, unscored, failed: questions x repeats with a value, with an answer but no value, and without an answer. Only
        the first count towards the mean.
    bound: the mean if every failed one counted 0.
    by_repeat: each repeat's mean over its scored questions, as if it were a separate run; empty for one repeat.
    std: the sample standard deviation of these, as ReST meets ReAct reports it after ± (ten runs); None for one.
    """

    mean: float | None
    low: float | None
    high: float | None
    scored: int
    unscored: int
    failed: int
    bound: float | None
    by_repeat: tuple[float, ...] = ()
    std: float | None = None


class Cost(Value):
    """What a question costs on average, failed ones included. usd: None where no price is known."""

    tokens: float
    seconds: float
    usd: float | None = None

    def words(self) -> str:
        """As in "3,120 tokens, 4.1 s and 0.00120 USD a question"."""
        parts = [f"{self.tokens:,.0f} tokens", f"{self.seconds:.1f} s"]
        parts += [] if self.usd is None else [f"{self.usd:.5f} USD"]
        return f"{', '.join(parts[:-1])} and {parts[-1]} a question"


class Summary(Value):
    """The results of a run. usage, seconds: sums over questions x repeats.

    finished: whether every question and repeat was run. same_repeats: questions whose repeats all gave the same short
    answer. stopped: the number of answers that each budget limit ended early. cut: the number of answers whose last
    reply was cut by its length limit.
    """

    finished: bool
    questions: int
    repeats: int
    runs: int
    failed: int
    failures: dict[str, int] = Field(default_factory=dict)
    stopped: dict[str, int] = Field(default_factory=dict)
    cut: int = 0
    same_repeats: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    primary: str
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)

    @property
    def cost(self) -> Cost:
        """A question's mean cost."""
        runs = max(1, self.runs)
        usd = None if self.usage.usd is None else self.usage.usd / runs
        return Cost(tokens=self.usage.tokens / runs, seconds=self.seconds / runs, usd=usd)
