"""One reasoning step: its prompt, its samples in one call, the choice between them, and a retry if none is usable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from zlib import crc32

from reground.core.errors import ContextLengthExceeded
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run
from reground.methods.search_agent.actions import END, Action
from reground.methods.search_agent.choosing import Choice, Legal, choose, read
from reground.methods.search_agent.settings import Settings
from reground.methods.search_agent.steps import DECIDE, SUMMARISE, Fitted, Step, fit
from reground.methods.search_agent.view import View

STOP = (END, "\nORIGINAL_QUESTION", "\n####")


@dataclass
class Taker:
    """Takes the steps of one question, and counts the samples."""

    config: Settings
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
