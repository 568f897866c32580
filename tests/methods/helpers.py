"""What the tests of methods share: a model that knows its job from the prompt, and shorthands for traces."""

from collections.abc import Callable, Sequence

from reground.core.errors import RetrievalError
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage, estimate_tokens
from reground.core.run import Run
from reground.core.trajectory import GenerateStep, NoteStep, RetrieveStep
from reground.models.scripted import ScriptedModel

PASSAGES = [
    Passage(id="seine", title="Seine", text="The Seine is 775 km long and flows through Paris."),
    Passage(id="danube", title="Danube", text="The Danube is 2850 km long and flows through Vienna."),
    Passage(id="rhine", title="Rhine", text="The Rhine is 1230 km long and flows through Cologne."),
    Passage(id="thames", title="Thames", text="The Thames is 346 km long and flows through London."),
]


def effects(run: Run) -> list[tuple[str, str]]:
    """Span and name of every effect and note, spans' own notes left out."""
    return [(step.span, step.name) for step in run.steps if step.name != "span"]


def notes(run: Run, name: str) -> list[NoteStep]:
    return [step for step in run.steps if isinstance(step, NoteStep) and step.name == name]


def queries(run: Run) -> list[str]:
    return [step.query for step in run.steps if isinstance(step, RetrieveStep)]


def prompts(run: Run, name: str) -> list[str]:
    """The last message of every model call of that name, in the order in which they ended."""
    return [step.messages[-1].content for step in run.steps if isinstance(step, GenerateStep) and step.name == name]


Say = str | Reply | Exception | Callable[[str], "str | Reply | Exception"]


def by_job(jobs: dict[str, Say | Sequence[Say]]) -> ScriptedModel:
    """A model whose reply depends on which of the marks stands in the prompt, the first that does.

    A list is used up one by one, its last entry again and again.
    """
    used = dict.fromkeys(jobs, 0)

    def reply(messages: Sequence[Message], sampling: Sampling) -> Reply | str | Exception:
        prompt = messages[-1].content
        mark = next(mark for mark in jobs if mark in prompt)
        say = jobs[mark]
        if isinstance(say, list):
            position = min(used[mark], len(say) - 1)
            used[mark] += 1
            say = say[position]
        return say(prompt) if callable(say) else say  # type: ignore[return-value]

    return ScriptedModel(reply)


class Failing:
    """A retriever that fails on the queries that hold a word, and finds nothing for those that hold another."""

    name = "failing"

    def __init__(self, *, on: str = "", nothing_for: str = "", error: type[RetrievalError] = RetrievalError) -> None:
        self.on, self.nothing_for, self.error = on, nothing_for, error

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        if self.on and self.on in query:
            raise self.error("the index is on fire")
        return [] if self.nothing_for and self.nothing_for in query else PASSAGES[:k]


class Paid(ScriptedModel):
    """A model that is paid for as budgets estimate it."""

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        first, *others = await super().generate(messages, sampling)
        completion = sum(len(reply.text) * 2 // 7 for reply in (first, *others))
        usage = Usage(calls=1, prompt=estimate_tokens(tuple(messages)), completion=completion)
        return [first.model_copy(update={"usage": usage}), *others]
