"""Scales a method up to a token limit: finds its sizes, and the cost of each by a dry run.

"For each method, we will scale them to stay within the permitted maximum token limit" (RaR, section 4.1). A method is
never made smaller than its own settings: what does not fit, the limit ends.

A method reaches the world only through its run. A dry run returns replies and passages of usual length, and counts the
tokens that a model would have used. From these, or from finished questions, a run's cost is estimated in advance.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Any

from reground.core.answers import TEXT
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel, Prompt, Reply, Sampling, TokenLogprob, Usage, tokens_of
from reground.core.programs import Execution, Program, Sandbox, Verdict
from reground.core.run import AskingCritic, Critic, Method, Run, Sizable
from reground.core.trajectory import Pair
from reground.evaluation.results import Record
from reground.evaluation.task import Example

PASSAGE_WORDS = 70
"""Words of a usual passage, of eight characters each: a paragraph of an encyclopedia has about 160 tokens."""

_QUESTION = "Which of the two rivers that flow through the capitals of these countries is longer, and by how much?"
_STEP = (
    "Step {number} says what is known of it, in {number} or more of the words that a sentence or two of it take here."
)


class DryRun(Run):
    """A run that makes up replies, passages and verdicts of usual length.

    A method that parses replies gives the usual ones by the names of its calls, as `usual`. Other replies are in steps,
    as long as an answer in the method's form usually is (`AnswerForm.usual`), but no longer than half of their maximum.
    """

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method, self.numbers = method, itertools.count(1)

    def span(self, name: str, **data: Any) -> Run:
        """A child span, which counts together with its parent."""
        child = super().span(name, **data)
        assert isinstance(child, DryRun)
        child.method, child.numbers = self.method, self.numbers
        return child

    async def generate(
        self, model: LanguageModel, prompt: Prompt, /, *, name: str, sampling: Sampling | None = None, **_: Any
    ) -> list[Reply]:
        """Usual replies, counted."""
        settings = sampling if sampling is not None else Sampling()
        replies = [self._reply(name, settings) for _ in range(settings.n)]
        completion = sum(tokens_of(reply.text) for reply in replies)
        usage = Usage(calls=1, prompt=tokens_of(prompt) * 7 // 8, completion=completion * 7 // 8)  # estimates are high
        self.meter.usage += usage
        return replies

    def _reply(self, name: str, sampling: Sampling) -> Reply:
        text = getattr(self.method, "usual", {}).get(name)
        if text is None:
            usual = getattr(self.method, "form", TEXT).usual
            text = steps(min(usual, max(1, sampling.max_tokens // 2)), self.numbers)
        elif "{number}" in text:
            text = text.replace("{number}", str(next(self.numbers)))
        token = TokenLogprob(token=text, logprob=-1.0)
        return Reply(text=text, token_logprobs=(token,) if sampling.logprobs else None)

    async def retrieve(self, retriever: Retriever, query: str, /, *, k: int, name: str = "retrieve") -> list[Passage]:
        """`k` new passages."""
        return [
            Passage(id=f"dry{next(self.numbers)}", title="A usual title", text="passage " * PASSAGE_WORDS)
            for _ in range(k)
        ]

    async def execute(self, sandbox: Sandbox, program: Program, /, *, name: str = "execute") -> Execution:
        """A wrong answer, so that its correction is counted."""
        return Execution(verdict=Verdict.WRONG_ANSWER, detail="assert f(1) == 2")

    async def score(self, critic: Critic, pairs: Sequence[Pair], /, *, name: str = "score") -> list[float]:
        """Equal scores. A critic that asks a model does so."""
        if isinstance(critic, AskingCritic):
            await critic.score(pairs, self)
        return [0.0] * len(pairs)


def steps(tokens: int, numbers: Iterable[int]) -> str:
    """A reasoning of about this many tokens, in which all steps differ."""
    parts: list[str] = []
    for number in numbers:
        parts.append(_STEP.replace("{number}", str(number)))
        if 30 * len(parts) >= tokens:
            break
    return "\n\n".join(parts)[: max(1, tokens * 7 // 2)]


def usual(method: Method, question: str = _QUESTION) -> Usage:
    """What a question usually takes, by a dry run. If the method fails, what it took up to the failure."""

    async def run() -> Usage:
        dry = DryRun(method)
        with contextlib.suppress(RegroundError):
            await method.solve(question, dry)
        return dry.usage

    with ThreadPoolExecutor(1) as thread:  # the caller may run in an event loop
        return thread.submit(lambda: asyncio.run(run())).result()


def sizes(method: Method, *, keep: Iterable[str] = ()) -> list[Method]:
    """The method as it is, and its other sizes, smallest first, each once.

    keep: settings that the user chose, which stay unchanged. Sizes that contradict them are left out.
    """
    several = [method]
    for size in method.sizes() if isinstance(method, Sizable) else ():
        try:
            fixed: Any = replace(size, **{name: getattr(method, name) for name in keep})  # type: ignore[type-var]
        except ConfigurationError:
            continue
        if fixed not in several:
            several.append(fixed)
    return several


def scaled(method: Method, tokens: int | None, *, keep: Iterable[str] = ()) -> Method:
    """The method's largest size that is expected to fit the limit, and never one below its own settings."""
    if tokens is None:
        return method
    own, *others = sizes(method, keep=keep)
    fits = [(price, size) for size in others if (price := usual(size).tokens) <= tokens]
    return max([(usual(own).tokens, own), *fits], key=lambda each: each[0])[1]


Pricing = Callable[[int, int, int], float]
"""USD for prompt, cached and completion tokens."""


@dataclass(frozen=True)
class Estimate:
    """The remaining cost of one run; what is not known is None.

    runs: remaining questions x repeats. tokens, usd: what is expected. most_tokens, most_usd: what the budget allows.
    seconds: of the expected tokens. measured: the number of finished questions behind the figures; 0 means a dry run.
    """

    label: str
    runs: int
    tokens: int | None
    most_tokens: int | None
    usd: float | None
    most_usd: float | None
    seconds: float | None
    measured: int


def estimate(
    label: str,
    examples: Sequence[Example],
    *,
    repeats: int,
    budget: int | None,
    records: Sequence[Record],
    usual: Usage | None = None,
    usd: Pricing | None = None,
    speed: float | None = None,
    concurrency: int = 1,
) -> Estimate:
    """Estimate a run from its finished questions, or else from what a question usually takes.

    records: of these. usual: of one question, from a dry run. usd: the price. speed: tokens per second of all questions
    in work together; by default the measured seconds per question.
    """
    finished = {record.id for record in records}
    remaining = sum(f"{example.id}~{repeat}" not in finished for repeat in range(repeats) for example in examples)
    paid = [record for record in records if record.failure is None and record.usage.calls]
    spent, of = (sum((record.usage for record in paid), Usage()), len(paid)) if paid else (usual, 1)
    fits = 1.0 if spent is None or budget is None else min(1.0, budget * of / max(spent.tokens, 1))
    prompt, cached, completion = (
        round(fits * remaining / of * getattr(spent, name, 0)) for name in ("prompt", "cached", "completion")
    )
    tokens = None if spent is None else prompt + completion
    most = None if budget is None else remaining * budget
    seconds = None if speed is None or tokens is None else tokens / speed
    if paid and speed is None:
        seconds = remaining * fmean(record.seconds for record in paid) / concurrency
    return Estimate(
        label,
        remaining,
        tokens,
        most,
        None if usd is None or tokens is None else usd(prompt, cached, completion),
        None if usd is None or most is None else max(usd(most, 0, 0), usd(0, 0, most)),
        seconds,
        len(paid),
    )


def total(estimates: Sequence[Estimate]) -> Estimate:
    """The sum. What one part lacks is None."""

    def add(name: str) -> Any:
        values = [getattr(each, name) for each in estimates]
        return None if None in values else sum(values)

    return Estimate("all", *(add(each.name) for each in fields(Estimate)[1:]))
