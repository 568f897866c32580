"""Workers in this process, for tests of what needs no Ray: all that they get and give is pickled on the way."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from reground import __version__
from reground.app.cluster.worker import Spec, Worker, WorkerLost
from reground.app.options import Evaluate
from reground.models.options import ModelOptions

T = TypeVar("T")

CHAIN = '''"""Asks three times, one after the other; each prompt has the reply before it."""

import dataclasses
import os
from pathlib import Path

from reground.core.answers import PHRASE, Answer, AnswerForm
from reground.core.language import LanguageModel, Sampling


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chain:
    """Three calls. steps: how many."""

    model: LanguageModel
    form: AnswerForm = PHRASE
    steps: int = 3
    pids: str = ""

    async def solve(self, question, run, /):
        if self.pids:
            (Path(self.pids) / str(os.getpid())).touch()
        text = ""
        for number in range(self.steps):
            sampling = Sampling(temperature=0.7)
            text = await run.ask(self.model, f"{question} step {number} after {text}", name="ask", sampling=sampling)
            run.propose(Answer(text=text))
        return Answer(text=text)


METHOD = Chain
'''

BOOKS = '''"""Four questions with one answer. Who scores an answer leaves a file named by its process."""

import os
from pathlib import Path

from reground.core.answers import PHRASE
from reground.evaluation.task import Example, Score, Task


class Books(Task):
    """Right or wrong."""

    name, form, primary = "books_train", PHRASE, "exact match"

    def examples(self):
        return [Example(id=f"q{i}", question=f"who wrote book {i}?", golden_answers=["a writer"]) for i in range(4)]

    async def score(self, example, trajectory, sandbox):
        (Path(__file__).parent / f"{os.getpid()}.pid").touch()
        said = self.form.extract(trajectory.answer.text)
        return {"exact match": Score(value=float(said in example.golden_answers))}


TASKS = {"books_train": Books}
'''


def moody(body: dict[str, Any]) -> str:
    """A reply about books by the seed and the question; it is right in some of its moods."""
    lot = Random(json.dumps([body.get("seed"), body["messages"]]))
    return lot.choice(["Let us think.", "Let us see.", "Answer: a writer", "Answer: nobody"])


def books(folder: Path) -> str:
    """The name of the task above, in a file of this folder."""
    (folder / "books.py").write_text(BOOKS)
    return f"{folder / 'books.py'}:books_train"


def written(folder: Path, questions: int) -> tuple[Path, Path]:
    """The files of the method above and of questions."""
    method, asked = folder / "chain.py", folder / "questions.jsonl"
    method.write_text(CHAIN)
    lines = ({"id": f"q{i}", "question": f"what is {i}", "answer": str(i)} for i in range(questions))
    asked.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return method, asked


def order(folder: Path, url: str, questions: int, **options: object) -> Evaluate:
    """What `eval` would be given."""
    method, asked = written(folder, questions)
    return Evaluate(
        method=str(method), questions=asked, model="openai/mock", model_options=ModelOptions(base_url=url), **options
    )


def spec(given: Evaluate) -> Spec:
    """What its workers would be given."""
    return Spec(given, (given.method,), Path.cwd(), __version__)


def sent(value: T) -> T:
    """The value after its way."""
    return pickle.loads(pickle.dumps(value))


class Near:
    """A worker in this process."""

    def __init__(self, spec: Spec) -> None:
        self._worker = Worker(sent(spec))
        self._running: set[asyncio.Task[object]] = set()
        self.dead = False
        self.questions: list[str] = []

    async def call(self, method: str, *arguments: Any) -> Any:
        if method == "solve" and len(arguments) > 1:
            self.questions.append(arguments[2].id)
        if self.dead:
            raise WorkerLost("killed")
        work = getattr(self._worker, method)(*sent(arguments))
        task = asyncio.ensure_future(work)
        self._running.add(task)
        try:
            return sent(await asyncio.shield(task))
        except asyncio.CancelledError:
            if self.dead:
                raise WorkerLost("killed") from None
            raise
        finally:
            self._running.discard(task)

    def kill(self) -> None:
        self.dead = True
        for task in self._running:
            task.cancel()


class Starts:
    """Begins workers of a kind in this process, and keeps them in `near`."""

    def __init__(self, spec: Spec, kind: type[Near] = Near) -> None:
        self._spec, self._kind = spec, kind
        self.near: list[Near] = []

    def __call__(self) -> Near:
        self.near.append(self._kind(self._spec))
        return self.near[-1]
