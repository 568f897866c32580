"""A small task, method and model of the tests' own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reground.core.answers import PHRASE, Answer, AnswerForm, Demonstration
from reground.core.language import LanguageModel, Message, Reply, Sampling, Usage
from reground.core.programs import Sandbox
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Score


@dataclass
class SumTask:
    """Questions "what is i + i", scored by exact match; items without a gold answer are unscored."""

    count: int = 6
    name: str = "sums"
    form: AnswerForm = PHRASE
    primary: str = "exact match"
    unscored: frozenset[str] = frozenset()
    scored: list[str] = field(default_factory=list)
    broken: bool = False

    def examples(self) -> Sequence[Example]:
        return [
            Example(
                id=f"q{i}",
                question=f"what is {i} + {i}",
                golden_answers=() if f"q{i}" in self.unscored else (str(2 * i),),
                metadata={"parity": "even" if i % 2 == 0 else "odd", "long": "x" * 500, "nested": [1]},
            )
            for i in range(self.count)
        ]

    def demonstrations(self) -> Sequence[Demonstration]:
        return []

    def solutions(self) -> Sequence[str]:
        return []

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        self.scored.append(trajectory.id)
        if self.broken:
            raise ValueError("the scorer is broken")
        if not example.golden_answers:
            return {"exact match": Score(value=None, why="no gold answer")}
        assert trajectory.answer is not None
        said = self.form.extract(trajectory.answer.text)
        return {
            "exact match": Score(value=float(said in example.golden_answers)),
            "length": Score(value=float(len(said))),
        }


@dataclass(frozen=True)
class Chain:
    """Asks a few times, one after the other and twice at once; the last reply is the answer."""

    model: LanguageModel
    steps: int = 1
    branches: int = 0
    sampling: Sampling | None = None

    async def solve(self, question: str, run: Run, /) -> Answer:
        async def branch(i: int) -> str:
            with run.span("branch") as child:
                return await child.ask(self.model, f"{question} branch {i}", name="branch", sampling=self.sampling)

        if self.branches:
            await asyncio.gather(*(branch(i) for i in range(self.branches)))
        text = ""
        for i in range(self.steps):
            text = await run.ask(self.model, f"{question} step {i}", name="step", sampling=self.sampling)
            run.propose(Answer(text=text))
        return Answer(text=text)


class Adder:
    """Knows sums; writes every call to a file before it answers, as a server's bill would."""

    name = "adder"

    def __init__(self, bill: Path, seconds: float = 0.0) -> None:
        self._bill = bill
        self._seconds = seconds

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        handle = os.open(self._bill, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(handle, (messages[-1].content + "\n").encode())
        os.close(handle)
        await asyncio.sleep(self._seconds)
        words = messages[-1].content.split()
        text = f"Answer: {int(words[2]) + int(words[4])}"
        return [Reply(text=text, usage=Usage(calls=1, prompt=10, completion=2))]


def adds(messages: Sequence[Message], sampling: Sampling) -> str:
    """A ScriptedModel's script that knows sums."""
    words = messages[-1].content.split()
    return f"Answer: {int(words[2]) + int(words[4])}"
