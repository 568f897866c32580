"""One reasoning step: its prompt, its samples in one call, the choice between them, and a second try where none is of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reground.core.errors import ContextLengthExceeded
from reground.core.language import Reply, Sampling
from reground.core.run import Run
from reground.methods._budget import affords
from reground.methods._search_agent.actions import END, Action
from reground.methods._search_agent.choosing import Choice, Legal, choose, read
from reground.methods._search_agent.steps import DECIDE, SUMMARISE, Fitted, Step, fit
from reground.methods._search_agent.view import View

if TYPE_CHECKING:
    from reground.methods.search_agent import SearchAgent

STOP = (END, "\nORIGINAL_QUESTION", "\n####")


@dataclass(frozen=True)
class After:
    """What the budget must still cover behind a step, so that there will be an answer."""

    calls: int = 0
    tokens: int = 0


@dataclass
class Taker:
    """Takes the steps of one question, and counts the samples."""

    config: SearchAgent
    drawn: int = 0
    discarded: int = 0
    repaired: int = 0
    logprobs: bool = True
    shrunk: int | None = None
    """The most tokens of a prompt, once the model has refused a longer one."""

    async def take(
        self, step: Step, view: View, run: Run, legal: Legal, *, after: After, must: bool = False
    ) -> Action | None:
        """The action that goes on; None where no sample is of use or the budget does not cover the step and what is after it.

        must: the call is made even so, and may raise BudgetExceeded.
        """
        attempts = 1 + (self.config.retries if self.config.temperature > 0 else 0)  # greedy samples come out the same
        for attempt in range(attempts):
            if not (must and attempt == 0) and not self.covers(step, view, run, after):
                run.note("step left out", step=step.name, why="the budget covers no more than the answer")
                return None
            replies, fitted = await self._sample(step, view, run, after)
            choice = choose([read(reply, step.kinds, legal) for reply in replies])
            run.choose(
                step.name,
                by=choice.by,
                context=fitted.context,
                candidates=choice.candidates(),
                chosen=choice.chosen,
                why=choice.why,
            )
            self._count(step, choice, run)
            if choice.action is not None:
                return choice.action
        run.note("no usable sample", step=step.name, attempts=attempts)
        return None

    def covers(self, step: Step, view: View, run: Run, after: After) -> bool:
        """Whether the budget covers a prompt of the step, its usual reply and what is after it."""
        if not affords(run, calls=1 + after.calls, tokens=0):
            return False
        room = run.meter.room()
        return room is None or self._fit(step, view, run, after).size + step.usual + after.tokens <= room

    def need(self, step: Step, view: View) -> int:
        """Tokens that the step takes with one exemplar and one sample."""
        shots = 1 if self.config.shots is None else min(1, self.config.shots)
        system, snippet = self._system(step), self.config.snippet_tokens
        return fit(step, system, view, shots=shots, snippet=snippet, limit=None).size + step.usual

    def length(self, step: Step) -> int:
        """The most tokens of a reply."""
        return self.config.action_tokens if step in (DECIDE, SUMMARISE) else self.config.max_tokens

    def _system(self, step: Step) -> str:
        return self.config.prompts.system(step.name)

    def _fit(self, step: Step, view: View, run: Run, after: After) -> Fitted:
        config, room = self.config, run.meter.room()
        limits = [
            self.shrunk,
            None if config.context_tokens is None else config.context_tokens - self.length(step),
            None if room is None else room - after.tokens - step.usual,
        ]
        limit = min((each for each in limits if each is not None), default=None)
        return fit(step, self._system(step), view, shots=config.shots, snippet=config.snippet_tokens, limit=limit)

    async def _sample(self, step: Step, view: View, run: Run, after: After) -> tuple[Sequence[Reply], Fitted]:
        """All samples in one call. A prompt that the model refuses as too long is cut by a quarter until it is taken."""
        while True:
            fitted = self._fit(step, view, run, after)
            sampling = self._sampling(step, fitted, run, after)
            try:
                replies = await run.generate(
                    self.config.model, fitted.messages, name=step.name, sampling=sampling, logprobs="welcome"
                )
            except ContextLengthExceeded as error:
                self.shrunk = fitted.size * 3 // 4
                if self._fit(step, view, run, after).size >= fitted.size:
                    raise
                run.note("context full", step=step.name, why=str(error), limit=self.shrunk)
                continue
            if fitted.cut.weakened:
                run.note("prompt cut", step=step.name, **asdict(fitted.cut))
            self._miss_logprobs(replies, run)
            return replies, fitted

    def _sampling(self, step: Step, fitted: Fitted, run: Run, after: After) -> Sampling:
        """Samples and their length as far as the budget goes, what is after the step left in it."""
        n, length, room = self.config.samples, self.length(step), run.meter.room()
        if room is not None:
            spare = room - after.tokens - fitted.size
            n = max(1, min(n, spare // step.usual))
            length = min(length, max(step.usual, spare // n))
        return Sampling(n=n, temperature=self.config.temperature, max_tokens=length, stop=STOP, logprobs=self.logprobs)

    def _miss_logprobs(self, replies: Sequence[Reply], run: Run) -> None:
        """Say once that there are no log-probabilities, and ask for none again."""
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
