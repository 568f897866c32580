"""One reasoning step: its prompt, its samples in one call, the choice between them, and a retry if none is usable.

The sample of lowest perplexity is used. Where log-probabilities are missing it is the one that agrees most with the
others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from reground.core.errors import ContextLengthExceeded, ParseError
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.search_agent.actions import END, Action, as_data
from reground.methods.search_agent.parsing import read_action
from reground.methods.search_agent.steps import DECIDE, SUMMARISE, Fitted, Step, View, fit

Legal = Callable[[Action], str | None]
"""Says what is wrong with an action in the present state; None if it is legal."""


@dataclass(frozen=True)
class Sample:
    """A sampled reply with its action, or the reason it is discarded. repaired: whether its quotes were mended."""

    reply: Reply
    action: Action | None = None
    discarded: str | None = None
    repaired: bool = False


@dataclass(frozen=True)
class Choice:
    """The choice among samples: an index (None if all were discarded), the criterion, and the reason."""

    samples: tuple[Sample, ...]
    chosen: int | None
    by: str
    why: str
    scores: tuple[float | None, ...]

    @property
    def action(self) -> Action | None:
        """The action of the chosen sample."""
        return None if self.chosen is None else self.samples[self.chosen].action

    @property
    def discarded(self) -> int:
        """Number of unusable samples."""
        return sum(sample.action is None for sample in self.samples)

    @property
    def repaired(self) -> int:
        """Number of samples that are usable only because their quotes were mended."""
        return sum(sample.repaired for sample in self.samples)

    def candidates(self) -> list[Candidate]:
        """The samples for the trajectory."""
        return [
            Candidate(
                text=sample.reply.text,
                logprob=sample.reply.mean_logprob,
                score=score,
                discarded=sample.discarded,
                data={} if sample.action is None else as_data(sample.action),
            )
            for sample, score in zip(self.samples, self.scores, strict=True)
        ]


def read(reply: Reply, kinds: tuple[type[Action], ...], legal: Legal) -> Sample:
    """Parse a reply. Every reply gives a sample, even a malformed one."""
    is_cut = reply.finish_reason == "length"
    try:
        action, repaired = read_action(reply.text, mend=not is_cut)
    except ParseError as error:
        return Sample(reply, discarded=f"{error}{' It was cut by the length limit.' if is_cut else ''}")
    wrong = None if isinstance(action, kinds) else f"{type(action).__name__} is no action of this step."
    wrong = wrong or legal(action)
    return Sample(reply, discarded=wrong) if wrong else Sample(reply, action, repaired=repaired)


def choose(samples: Sequence[Sample]) -> Choice:
    """The usable sample of lowest perplexity; without log-probabilities, the one that agrees most with the others.

    Among equals the first is chosen.
    """
    usable = [i for i, sample in enumerate(samples) if sample.action is not None]
    logprobs = [samples[i].reply.mean_logprob for i in usable]
    measured = [logprob for logprob in logprobs if logprob is not None]
    if len(measured) == len(usable):
        by, values, why = "perplexity", measured, f"the lowest perplexity of {len(usable)} usable samples"
    else:
        by, values = "agreement", _agreements([_essence(samples[i].action) for i in usable])
        missing = f"{len(usable) - len(measured)} without log-probabilities"
        why = f"most agreement of {len(usable)} usable samples, {missing}"
    scores: list[float | None] = [None] * len(samples)
    for i, value in zip(usable, values, strict=True):
        scores[i] = value
    if not usable:
        return Choice(tuple(samples), None, by, "every sample was discarded", tuple(scores))
    best = usable[values.index(max(values))]
    return Choice(tuple(samples), best, by, why, tuple(scores))


def _essence(action: Action | None) -> tuple[str, Counter[str]]:
    """An action's kind and the words of all but its thoughts."""
    data = {} if action is None else as_data(action)
    said = " ".join(str(value) for name, value in data.items() if name not in ("action", "thoughts"))
    return str(data.get("action", "")), Counter(re.findall(r"\w+", said.casefold()))


def _agreements(essences: Sequence[tuple[str, Counter[str]]]) -> list[float]:
    """Mean similarity of each one to the others; 1 if there are no others."""
    return [
        sum(_likeness(mine, other) for j, other in enumerate(essences) if j != i) / (len(essences) - 1)
        if len(essences) > 1
        else 1.0
        for i, mine in enumerate(essences)
    ]


def _likeness(a: tuple[str, Counter[str]], b: tuple[str, Counter[str]]) -> float:
    """Token F1 of two actions of one kind; actions of different kinds have nothing in common."""
    if a[0] != b[0]:
        return 0.0
    total = a[1].total() + b[1].total()
    return 2 * (a[1] & b[1]).total() / total if total else 1.0


if TYPE_CHECKING:
    from reground.methods.search_agent import SearchAgent

STOP = (END, "\nORIGINAL_QUESTION", "\n####")


@dataclass
class Taker:
    """Takes the steps of one question, and counts the samples."""

    config: SearchAgent
    drawn: int = 0
    discarded: int = 0
    repaired: int = 0
    logprobs: bool = True
    shrunk: int | None = None
    """Maximum tokens of a prompt, set once the model has refused a longer one."""

    async def take(self, step: Step, view: View, run: Run, legal: Legal) -> Action | None:
        """The chosen action; None if no sample is usable."""
        action = await self._try(step, view, run, legal)
        retries = self.config.retries if self.config.temperature > 0 else 0  # greedy samples would be the same
        for _ in range(retries):
            if action is None:
                with run.optional():
                    action = await self._try(step, view, run, legal)
        if action is None:
            run.note("no usable sample", step=step.name, attempts=1 + retries)
        return action

    async def _try(self, step: Step, view: View, run: Run, legal: Legal) -> Action | None:
        replies, fitted = await self._sample(step, view, run)
        choice = choose([read(reply, step.kinds, legal) for reply in replies])
        candidates, context = choice.candidates(), fitted.context
        run.choose(
            step.name, by=choice.by, context=context, candidates=candidates, chosen=choice.chosen, why=choice.why
        )
        self._count(step, choice, run)
        return choice.action

    def concluding(self, step: Step, view: View) -> tuple[Message, ...]:
        """The shortest prompt of the step, with one exemplar."""
        shots = 1 if self.config.shots is None else min(1, self.config.shots)
        snippet = self.config.snippet_tokens
        first = self._first(view)
        return fit(step, self._system(step), view, shots=shots, snippet=snippet, limit=None, first=first).messages

    def length(self, step: Step) -> int:
        """Maximum tokens of a reply."""
        return self.config.action_tokens if step in (DECIDE, SUMMARISE) else self.config.max_tokens

    def _system(self, step: Step) -> str:
        return self.config.prompts.system(step.name)

    def _fit(self, step: Step, view: View, run: Run) -> Fitted:
        config, room = self.config, run.room()
        limits = [
            self.shrunk,
            None if config.context_tokens is None else config.context_tokens - self.length(step),
            None if room is None else room - step.usual,
        ]
        limit = min((each for each in limits if each is not None), default=None)
        return fit(
            step,
            self._system(step),
            view,
            shots=config.shots,
            snippet=config.snippet_tokens,
            limit=limit,
            first=self._first(view),
        )

    def _first(self, view: View) -> int:
        """The exemplar with which a prompt begins: always the same, or the question's own."""
        return crc32(view.question.encode()) if self.config.exemplars == "rotated" else 0

    async def _sample(self, step: Step, view: View, run: Run) -> tuple[Sequence[Reply], Fitted]:
        """All samples in one call. A prompt that is too long for the model is cut by a quarter until it is accepted."""
        while True:
            fitted = self._fit(step, view, run)
            try:
                replies = await run.generate(
                    self.config.model,
                    fitted.messages,
                    name=step.name,
                    sampling=self._sampling(step, view),
                    logprobs="welcome",
                    grammar="needed" if self.config.grammar == "needed" else "welcome",
                    least=step.usual,
                )
            except ContextLengthExceeded as error:
                self.shrunk = fitted.size * 3 // 4
                if self._fit(step, view, run).size >= fitted.size:
                    raise
                run.note("context full", step=step.name, why=str(error), limit=self.shrunk)
                continue
            if fitted.cut.weakened:
                run.note("prompt cut", step=step.name, **asdict(fitted.cut))
            self._miss_logprobs(replies, run)
            return replies, fitted

    def _sampling(self, step: Step, view: View) -> Sampling:
        links = tuple(link.link_id for link in view.results or ())
        return Sampling(
            n=self.config.samples,
            temperature=self.config.temperature,
            max_tokens=self.length(step),
            stop=STOP,
            logprobs=self.logprobs,
            grammar=None if self.config.grammar == "off" else step.grammar(links),
        )

    def _miss_logprobs(self, replies: Sequence[Reply], run: Run) -> None:
        """Note once that there are no log-probabilities, and stop asking for them."""
        if self.logprobs and all(reply.token_logprobs is None for reply in replies):
            self.logprobs = False
            run.note(
                "no log-probabilities",
                model=self.config.model.name,
                instead="the sample that agrees most with the others goes on",
            )

    def _count(self, step: Step, choice: Choice, run: Run) -> None:
        drawn = len(choice.samples)
        self.drawn += drawn
        self.discarded += choice.discarded
        self.repaired += choice.repaired
        if choice.discarded:
            run.note("samples discarded", step=step.name, discarded=choice.discarded, of=drawn)
        if choice.repaired:
            run.note("samples repaired", step=step.name, repaired=choice.repaired, of=drawn)
