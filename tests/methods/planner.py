"""What the tests of CR-Planner share: critics that want what they are told, and shorthands for choices."""

from collections.abc import Callable, Sequence

from reground.core.answers import PHRASE
from reground.core.run import Run
from reground.core.trajectory import ChooseStep, Pair
from reground.critics import Critics
from reground.methods.cr_planner import CRPlanner
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, Say, by_job

QUESTION = "Which river is longer, the Seine or the Danube?"
REASON, QUERY, LOOK = "step is to reason", "step is to write a search query", "step is to look up"


class Wanting:
    """A critic that wants, at its i-th choice, what holds the i-th word; the last word again and again."""

    def __init__(self, *words: str, name: str = "wanting") -> None:
        self.name = name
        self.words = list(words)
        self.seen: list[list[Pair]] = []

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        word = self.words[min(len(self.seen), len(self.words) - 1)] if self.words else ""
        self.seen.append(list(pairs))
        return [float(bool(word) and word in pair.candidate) for pair in pairs]


class Scoring:
    """A critic that scores by a function of the candidate."""

    name = "scoring"

    def __init__(self, of: Callable[[str], float]) -> None:
        self.of = of

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        return [self.of(pair.candidate) for pair in pairs]


def critics(**given: object) -> Critics:
    """Critics that take the first of what they are offered, but for those given."""
    return Critics(**{kind: given.get(kind, Wanting()) for kind in ("subgoal", "rationale", "query", "doc")})  # type: ignore[arg-type]


def generator(
    reason: Say | list[Say] = "A step.", query: Say | list[Say] = "river length", answer: Say = "Answer: forced"
) -> ScriptedModel:
    return by_job(
        {
            "the next step of the reasoning": reason,
            "finds the documents asked for": query,
            "Write a search query": query,
            "Give the final answer now": answer,
        }
    )


def planner(model: ScriptedModel, **settings: object) -> CRPlanner:
    defaults = {"retriever": ScriptedRetriever(PASSAGES), "form": PHRASE, "candidates": 1, "critics": critics()}
    return CRPlanner(model=model, **{**defaults, **settings})  # type: ignore[arg-type]


def choices(run: Run, name: str | None = None) -> list[ChooseStep]:
    return [step for step in run.steps if isinstance(step, ChooseStep) and name in {None, step.name}]


def goals(run: Run) -> list[str]:
    """The sub-goals chosen, in order."""
    return [
        str(step.candidates[step.chosen].data["goal"]) for step in choices(run, "subgoal") if step.chosen is not None
    ]
