"""Models that take their time without a clock, and say what a test chose to let change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from reground.core.answers import PHRASE
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Run
from reground.core.trajectory import GenerateStep, NoteStep, RetrieveStep
from reground.methods.ircot import IRCoT
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES

QUESTION = "Which is longer, the river of Vienna or that of Cologne?"
_IDLE = 50
"""Turns of the event loop after which nothing more begins until a call returns."""


class Waves:
    """Counts the rounds of calls that wait for each other: when all wait, those whose delay is over return."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> bool:
        """Whether a call is in flight."""
        return any(not done.done() for _, done in self._waiting)

    async def wait(self, delay: int) -> None:
        """Return `delay` waves later."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.count + delay, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._release())
        await done

    async def _release(self) -> None:
        while self.waiting:
            for _ in range(_IDLE):
                await asyncio.sleep(0)
            self.count += 1
            due = [done for at, done in self._waiting if at <= self.count]
            self._waiting = [(at, done) for at, done in self._waiting if at > self.count]
            for done in due:
                if not done.done():
                    done.set_result(None)


class Slow(ScriptedModel):
    """A scripted model whose calls take waves: one, or what `delay` says for the prompt."""

    def __init__(
        self,
        script: Callable[[Sequence[Message], Sampling], Reply | str | Exception],
        delay: Callable[[str], int] = lambda prompt: 1,
    ) -> None:
        super().__init__(script)
        self.waves = Waves()
        self._delay = delay

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        replies = await super().generate(messages, sampling)
        await self.waves.wait(self._delay(messages[-1].content))
        return replies


Changes = dict[int, set[int]]
"""For the i-th step of a method, which steps its revision changes."""


def claim(i: int, at: int | None = None) -> str:
    return f"Claim {i} is old." if at is None else f"Claim {i} is new since step {at}."


def script(count: int, changes: Changes) -> Callable[[Sequence[Message], Sampling], str]:
    """A draft of that many claims, and revisions that change what is said of `changes`.

    A sampled reply names its seed, so that another seed gives another text.
    """

    def reply(messages: Sequence[Message], sampling: Sampling) -> str:
        prompt = messages[-1].content
        said = next(job(prompt, count, changes) for mark, job in _JOBS.items() if mark in prompt)
        seed = "" if sampling.seed is None or "Write only the query" in prompt else f" Seed {sampling.seed}."
        return said + seed

    return reply


def _revise(prompt: str, count: int, changes: Changes) -> str:
    steps = re.findall(r"Text:\n(.*?)\n\nTask:", prompt, re.DOTALL)[0].split("\n\n")
    at = len(steps) - 1
    return "\n\n".join(claim(j, at) if j in changes.get(at, ()) else step for j, step in enumerate(steps))


def _refine(prompt: str, count: int, changes: Changes) -> str:
    step = re.findall(r"(?:Step|Text) to correct:\n(.*?)\n\nTask:", prompt, re.DOTALL)[0]
    at = int(re.findall(r"Claim (\d+)", step)[0])
    return step.replace(claim(at), claim(at, at)) if changes.get(at) else step


def _reason(prompt: str, count: int, changes: Changes) -> str:
    at = len(re.findall(r"Claim \d", prompt.partition("Reasoning:")[2]))
    sentences = [claim(i, i) if i == at and changes.get(at) else claim(i) for i in range(at, count)]
    return " ".join([*sentences, "So the answer is the Danube."][:3])


def _draft(prompt: str, count: int, changes: Changes) -> str:
    return "\n\n".join(map(claim, range(count))) + "\n\nAnswer: the Danube" * ("Answer:" in prompt)


_JOBS: dict[str, Callable[[str, int, Changes], str]] = {
    "revised text only": _revise,
    "Write this one step": _refine,
    "end with the final answer that follows": _refine,
    "write only: OK": lambda prompt, count, changes: "OK",
    "Write only the query": lambda prompt, count, changes: "danube " + re.findall(r"Claim \d+[^.]*", prompt)[-1],
    "Write only the next sentence": _reason,
    "Write the whole answer again": lambda prompt, count, changes: "Claim 0 stands.\n\nAnswer: the Danube",
    "Think step by step": _draft,
    "final answer": lambda prompt, count, changes: "Answer: the Danube",
}

METHODS: dict[str, Callable[..., Any]] = {
    "rat": RAT,
    "rat, each passage": lambda **parts: RAT(**parts, k=2, max_contents=20, passes="each"),
    "rat, final pass": lambda **parts: RAT(**parts, form=PHRASE),
    "rat, query from the step": lambda **parts: RAT(**parts, query_from="step"),
    "rar": lambda **parts: RaR(**parts, form=PHRASE, max_contents=None, max_rounds=1),
    "rar, sequential": lambda **parts: RaR(**parts, max_contents=None, max_rounds=0, queries="sequential"),
    "ircot": lambda **parts: IRCoT(**parts, k=1),
}


def made(name: str, model: Slow, *, speculate: bool, **settings: object) -> Any:
    """The method with fakes."""
    retriever = ScriptedRetriever([*PASSAGES, *(p.model_copy(update={"id": f"{p.id}2"}) for p in PASSAGES)])
    return METHODS[name](model=model, retriever=retriever, speculate=speculate, **settings)


def told(run: Run) -> list[object]:
    """Everything that the method asked and got, and its notes on it, without what is said of guesses."""
    said: list[object] = []
    for step in run.steps:
        if isinstance(step, GenerateStep):
            said.append((step.span, step.ordinal, step.name, step.messages, step.sampling, step.replies))
        elif isinstance(step, RetrieveStep):
            said.append((step.span, step.ordinal, step.name, step.query, step.passages))
        elif not (isinstance(step, NoteStep) and step.name.startswith("guess")):
            said.append(step.model_copy(update={"elapsed": 0.0}))
    return said


def thrown(run: Run) -> Usage:
    """What the guesses that were thrown away cost, by their notes."""
    notes = [step for step in run.steps if isinstance(step, NoteStep) and step.name == "guess thrown away"]
    calls = [note for note in notes if note.data["of"] != "retrieve"]
    return Usage(calls=len(calls), prompt=sum(int(str(note.data["tokens"])) for note in calls))
