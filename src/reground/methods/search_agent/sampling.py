"""One reasoning step: its prompt, its samples in one call, the choice between them, and a retry if none is usable.

The sample of lowest perplexity is used. Where log-probabilities are missing it is the one that agrees most with the
others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from pydantic import JsonValue

from reground.core.errors import ContextLengthExceeded, ParseError
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.search_agent.actions import END, Action, as_data
from reground.methods.search_agent.parsing import read_action
from reground.methods.search_agent.steps import DECIDE, SUMMARISE, Fitted, Step, View, fit

if TYPE_CHECKING:
    from reground.methods.search_agent import SearchAgent

Legal = Callable[[Action], str | None]
"""Says what is wrong with an action in the present state; None if it is legal."""
STOP = (END, "\nORIGINAL_QUESTION", "\n####")


@dataclass(frozen=True)
class Sample:
    """A sampled reply with its action, or the reason it is discarded. repaired: whether its quotes were mended."""

    reply: Reply
    action: Action | None = None
    discarded: str | None = None
    repaired: bool = False


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


def choose(samples: Sequence[Sample], name: str, context: str, run: Run) -> Action | None:
    """The action of the usable sample of lowest perplexity; without log-probabilities, of the one that agrees most with
    the others. None if every sample was discarded. Among equals the first is chosen.

    name, context: the step, and the text that the choice saw, for the trajectory.
    """
    usable = [i for i, sample in enumerate(samples) if sample.action is not None]
    measured = [logprob for i in usable if (logprob := samples[i].reply.mean_logprob) is not None]
    if len(measured) == len(usable):
        by, values, why = "perplexity", measured, f"the lowest perplexity of {len(usable)} usable samples"
    else:
        by, values = "agreement", _agreements([as_data(action) for i in usable if (action := samples[i].action)])
        missing = f"{len(usable) - len(measured)} without log-probabilities"
        why = f"most agreement of {len(usable)} usable samples, {missing}"
    chosen = usable[values.index(max(values))] if usable else None
    scores = dict(zip(usable, values, strict=True))
    candidates = [
        Candidate(
            text=sample.reply.text,
            logprob=sample.reply.mean_logprob,
            score=scores.get(i),
            discarded=sample.discarded,
            data={} if sample.action is None else as_data(sample.action),
        )
        for i, sample in enumerate(samples)
    ]
    why = why if usable else "every sample was discarded"
    run.choose(name, by=by, context=context, candidates=candidates, chosen=chosen, why=why)
    return None if chosen is None else samples[chosen].action


def _agreements(actions: Sequence[Mapping[str, JsonValue]]) -> list[float]:
    """Each action's mean likeness to the others; 1 if there are no others.

    The likeness of two actions of one kind is the token F1 of all but their thoughts; of different kinds it is 0.
    """
    texts = (
        " ".join(str(value) for field, value in data.items() if field not in ("action", "thoughts")) for data in actions
    )
    words = [Counter(re.findall(r"\w+", text.casefold())) for text in texts]

    def likeness(i: int, j: int) -> float:
        if actions[i]["action"] != actions[j]["action"]:
            return 0.0
        total = words[i].total() + words[j].total()
        return 2 * (words[i] & words[j]).total() / total if total else 1.0

    places = range(len(actions))
    if len(actions) == 1:
        return [1.0]
    return [sum(likeness(i, j) for j in places if j != i) / (len(actions) - 1) for i in places]


@dataclass
class Taker:
    """Takes the steps of one question, and counts the samples.

    shrunk: the most tokens of a prompt, once the model has refused a longer one.
    """

    config: SearchAgent
    drawn: int = 0
    discarded: int = 0
    repaired: int = 0
    logprobs: bool = True
    shrunk: int | None = None

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
        replies, context = await self._sample(step, view, run)
        samples = [read(reply, step.kinds, legal) for reply in replies]
        action = choose(samples, step.name, context, run)
        discarded = sum(sample.action is None for sample in samples)
        repaired = sum(sample.repaired for sample in samples)
        self.drawn += len(samples)
        self.discarded += discarded
        self.repaired += repaired
        if discarded:
            run.note("samples discarded", step=step.name, discarded=discarded, of=len(samples))
        if repaired:
            run.note("samples repaired", step=step.name, repaired=repaired, of=len(samples))
        return action

    def concluding(self, step: Step, view: View) -> tuple[Message, ...]:
        """The shortest prompt of the step, with one exemplar."""
        shots = 1 if self.config.shots is None else min(1, self.config.shots)
        return self._fitted(step, view, shots=shots, limit=None).messages

    def _fitted(self, step: Step, view: View, *, shots: int | None, limit: int | None) -> Fitted:
        """The step's prompt. It begins with the same exemplar always, or with one of the question's own."""
        config = self.config
        first = crc32(view.question.encode()) if config.exemplars == "rotated" else 0
        system = config.prompts.system(step.name)
        return fit(step, system, view, shots=shots, snippet=config.snippet_tokens, limit=limit, first=first)

    def _within(self, step: Step, view: View, run: Run) -> Fitted:
        """The fullest prompt that the limits of the settings, of the model and of the run leave room for."""
        context, room = self.config.context_tokens, run.room()
        limits = [
            self.shrunk,
            None if context is None else context - self._longest(step),
            None if room is None else room - step.usual,
        ]
        limit = min((each for each in limits if each is not None), default=None)
        return self._fitted(step, view, shots=self.config.shots, limit=limit)

    def _longest(self, step: Step) -> int:
        """Maximum tokens of a reply."""
        return self.config.action_tokens if step in (DECIDE, SUMMARISE) else self.config.max_tokens

    async def _sample(self, step: Step, view: View, run: Run) -> tuple[Sequence[Reply], str]:
        """All samples in one call, and the turn with the present state.

        A prompt that is too long for the model is cut by a quarter until it is accepted.
        """
        config = self.config
        links = tuple(link.link_id for link in view.results or ())
        sampling = Sampling(
            n=config.samples,
            temperature=config.temperature,
            max_tokens=self._longest(step),
            stop=STOP,
            logprobs=self.logprobs,
            grammar=None if config.grammar == "off" else step.grammar(links),
        )
        while True:
            fitted = self._within(step, view, run)
            try:
                replies = await run.generate(
                    config.model,
                    fitted.messages,
                    name=step.name,
                    sampling=sampling,
                    logprobs="welcome",
                    grammar="needed" if config.grammar == "needed" else "welcome",
                    least=step.usual,
                )
                break
            except ContextLengthExceeded as error:
                self.shrunk = fitted.size * 3 // 4
                if self._within(step, view, run).size >= fitted.size:
                    raise
                run.note("context full", step=step.name, why=str(error), limit=self.shrunk)
        if fitted.cut.weakened:
            run.note("prompt cut", step=step.name, **asdict(fitted.cut))
        if self.logprobs and all(reply.token_logprobs is None for reply in replies):
            self.logprobs = False  # they are asked for no more
            instead = "the sample that agrees most with the others goes on"
            run.note("no log-probabilities", model=config.model.name, instead=instead)
        return replies, fitted.context
