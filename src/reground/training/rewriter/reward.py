"""The reward of a rewriting: what the whole pipeline makes of it (Rewrite-Retrieve-Read, equations 6 and 7).

The pipeline is the method itself, with a rewriter that says what the policy wrote. So a reward is measured on exactly
what will run later: the same parsing of queries, the same retrieval, the same reader and the same metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from reground.core.errors import ConfigurationError, ModelError, TransientModelError, did_you_mean
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run, Solved, solve
from reground.core.trajectory import GenerateStep, RetrieveStep, Trajectory
from reground.core.untrusted import fenced
from reground.evaluation.metrics.text import hit
from reground.evaluation.runner import FATAL
from reground.evaluation.task import Example, Task, hidden_documents
from reground.methods.rewrite_retrieve_read import OPENED, RewriteRetrieveRead, interleaved

RANK = "reciprocal rank"
"""1 / the place of the first passage that holds the answer, as the reader saw it, 0 where none does. It grows before a
hit is lost."""
RECALL = "gold recall"
GAIN = "gain"
"""The reward less that of the question itself as the query. It is told where no reader is needed: how hard the
questions of an iteration are moves the reward, and not the gain."""

PAPER: dict[str, dict[str, float]] = {
    "option F1": {"exact match": 1.0, "option F1": 1.0},
    "exact match": {"exact match": 1.0, "token F1": 1.0, "hit": 1.0},
}
"""Equations 7 and 6, with lambda_f = lambda_h = 1 as in the official configuration, by a metric that tasks have."""
RETRIEVAL = {"hit": 1.0, RANK: 1.0}
"""A reward without a reader: milliseconds instead of seconds."""

_MOST_FAILED = 20
"""Questions in a row that the pipeline may fail at: what is learned from failures is nothing."""


@dataclass(frozen=True)
class FixedReply:
    """A rewriter or a reader that always says the same."""

    text: str
    name: str = "said"

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The text."""
        return [Reply(text=self.text)] * sampling.n


NO_READER = FixedReply("Answer: unknown", name="no reader")
"""A reader that knows nothing, for rewards of what is retrieved alone."""


@dataclass(frozen=True)
class PipelineReward:
    """R_lm: a weighted sum of metrics of what the pipeline answers and retrieves.

    method: with its retriever and its reader, and a fixed number of passages in `total`: otherwise more queries read
    more passages, and more queries always pay. task: whose metrics count. weights: by metric; `hit` counts +1 or -1 as
    in equation 6, and -1 where nothing was searched or the pipeline failed, so that neither pays; `RANK` needs no
    reader. patience: seconds to wait for a reader that is away.
    """

    method: RewriteRetrieveRead
    task: Task
    weights: Mapping[str, float]
    patience: float = 3600.0
    pause: float = field(default=1.0, repr=False)
    _failures: list[Exception] = field(default_factory=list, init=False, repr=False, compare=False)
    _plain: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.method.total is None:
            raise ConfigurationError("a reward needs a fixed number of passages: set total, such as total=3")
        metrics = metrics_of(self.task)
        metrics = (*metrics, RANK) if "hit" in metrics else metrics  # a rank where passages can hold an answer
        for name in self.weights:
            if name not in metrics:
                raise ConfigurationError(
                    f"{self.task.name} has no metric {name!r} to reward; {did_you_mean(name, metrics)}"
                )

    def judge(self, loop: asyncio.AbstractEventLoop) -> Callable[[Example, str], Future[Mapping[str, float]]]:
        """What begins to judge a rewriting from another thread. loop: where models and documents were opened."""
        return lambda example, text: asyncio.run_coroutine_threadsafe(self(example, text), loop)

    async def __call__(self, example: Example, text: str) -> Mapping[str, float]:
        """The reward of a rewriting and its parts. `invalid` is 1 for one that holds no query.

        Raises ModelError where too many rewritings in a row failed.
        """
        solved, parts = await self._measure(example, text)
        if solved.error is None:
            self._failures.clear()
        else:
            self._failures.append(solved.error)
        if (count := len(self._failures)) >= _MOST_FAILED:
            raise ModelError(
                f"the pipeline failed at {count} rewritings in a row, at the last one with: {solved.error}"
            )
        score = self._weighed(parts)
        if retriever_only(self.weights):
            if example.id not in self._plain:
                self._plain[example.id] = self._weighed((await self._measure(example, None))[1])
            parts[GAIN] = score - self._plain[example.id]
        invalid, failed = not searches(solved.trajectory), solved.error is not None
        return {"score": score, "invalid": float(invalid), "failed": float(failed), **parts}

    def _weighed(self, parts: Mapping[str, float]) -> float:
        return sum(weight * parts[name] for name, weight in self.weights.items())

    async def _measure(self, example: Example, text: str | None) -> tuple[Solved, dict[str, float]]:
        """What the pipeline makes of a rewriting, and the metrics as the reward counts them.

        None searches with the question itself. What cannot be measured counts nothing.
        """
        solved = await self._solved(example, text)
        trajectory = solved.trajectory
        scores = {} if solved.error else await self.task.score(example, trajectory, None)
        values = {name: score.value for name, score in scores.items()}
        if not searches(trajectory):  # where nothing is searched, nothing is found
            values |= dict.fromkeys(("hit", RECALL), 0.0)
        if RANK in self.weights:
            values[RANK] = _rank(example, trajectory, self.method)
        parts = {name: values.get(name) or 0.0 for name in self.weights}
        if "hit" in parts and _can_be_hit(example):
            parts["hit"] = 2 * parts["hit"] - 1
        return solved, parts

    async def _solved(self, example: Example, text: str | None) -> Solved:
        """The pipeline's trajectory. Raises what ends any run, and what is not over when the patience is."""
        method = replace(self.method, mode="retrieve")
        if text is not None:
            method = replace(self.method, mode="rewrite", rewriter=FixedReply(text), rewriter_style="trained")
        hidden = hidden_documents(self.task, example)
        waited, pause = 0.0, self.pause
        while True:
            run = Run(hidden=hidden)
            solved = await solve(method, example.question, run, id=example.id, name="rewrite_retrieve_read")
            away = isinstance(solved.error, TransientModelError)
            if not away or waited >= self.patience:
                break
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(60.0, 2 * pause)
        if away or isinstance(solved.error, FATAL):
            raise solved.error  # type: ignore[misc]
        return solved


def metrics_of(task: Task) -> tuple[str, ...]:
    """The metrics that a task names, or its primary one."""
    return tuple(getattr(task, "metrics", None) or (task.primary,))


def retriever_only(weights: Mapping[str, float]) -> bool:
    """Whether a reward needs no reader."""
    return set(weights) <= {*RETRIEVAL, RECALL}


def teaches(example: Example, weights: Mapping[str, float]) -> bool:
    """Whether a reward can tell rewritings of a question apart.

    It cannot without a gold answer, nor by hits alone where the answer is no phrase that a passage could hold.
    """
    if not example.golden_answers:
        return False
    return not set(weights) <= set(RETRIEVAL) or _can_be_hit(example)


def reward_weights(text: str, task: Task) -> dict[str, float]:
    """The reward's metrics and their weights: retrieval, paper, or METRIC=WEIGHT,...

    Raises ConfigurationError for another text, and for a task that the paper has no reward for.
    """
    if text == "retrieval":
        return dict(RETRIEVAL)
    if text == "paper":
        metrics = metrics_of(task)
        for metric, of_paper in PAPER.items():
            if metric in metrics:
                return {name: weight for name, weight in of_paper.items() if name in metrics}
        raise ConfigurationError(
            f"the paper rewards exact match, and {task.name} has no such metric: name the reward's own"
        )
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        try:
            weights[name.strip()] = float(weight or 1)
        except ValueError:
            raise ConfigurationError(f"--reward is retrieval, paper or METRIC=WEIGHT,..., not {part!r}") from None
    return weights


def _can_be_hit(example: Example) -> bool:
    """Whether the answer is a phrase that a passage could hold."""
    return hit(example.golden_answers, [""]) is not None


def searches(trajectory: Trajectory) -> list[RetrieveStep]:
    """The searches of a rewriting's queries, in order."""
    return [step for step in trajectory.steps if isinstance(step, RetrieveStep) and step.name != OPENED]


def _rank(example: Example, trajectory: Trajectory, method: RewriteRetrieveRead) -> float | None:
    """The reciprocal rank among the passages as the reader saw them, or of what was found, where it did not come to
    read; None where no passage could hold the answer.
    """
    if not _can_be_hit(example):
        return None
    prompts = [step.messages[-1].content for step in trajectory.steps if isinstance(step, GenerateStep)]
    if trajectory.failure is None and prompts:
        read = fenced(prompts[-1])
    else:
        opened = (step for step in trajectory.steps if isinstance(step, RetrieveStep) and step.name == OPENED)
        pages = {page.id: page for step in opened for page in step.passages}
        results = [
            [pages.get(each.id, pages.get(each.page_id, each)) for each in step.passages]
            for step in searches(trajectory)
        ]
        read = [(passage.title, passage.text) for passage in interleaved(results)[: method.total]]
    return next((1 / place for place, texts in enumerate(read, start=1) if hit(example.golden_answers, texts)), 0.0)
