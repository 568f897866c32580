"""What is judged: pairs of different answers to one question, and whose answers they are.

A pair is known by its question and its two texts alone. So its name tells nothing about the methods, a vote still
counts when a folder is renamed, and two methods that gave the same answer are judged together.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from reground.core.errors import DataError
from reground.core.journal import fingerprint
from reground.evaluation.results import RunFolder
from reground.evaluation.tables import label

MOST = 100_000
"""Characters of a question or an answer that are shown."""


Read = Callable[[RunFolder, str], str]


@dataclass(frozen=True)
class Pair:
    """Two answers to a question, in the order of their texts, which says nothing about who wrote them.

    question: the question's id, unlike that of any other task. matches: the methods behind the first and the second
    text; several where methods or repeats gave the same texts.
    """

    id: str
    question: str
    text: str
    first: str
    second: str
    matches: tuple[tuple[str, str], ...]


@dataclass
class Contest:
    """All pairs of some runs. missing: answers that a method did not give. same: pairs of equal answers, left out."""

    methods: tuple[str, ...]
    pairs: dict[str, Pair] = field(default_factory=dict)
    missing: int = 0
    same: int = 0

    @property
    def questions(self) -> int:
        """The number of questions with a pair."""
        return len({pair.question for pair in self.pairs.values()})


@dataclass(frozen=True)
class _Place:
    """A question and repeat that several methods answered."""

    question: str
    repeat: int


def contest(
    runs: Sequence[RunFolder], *, limit: int | None = None, seed: int = 0, read: Read = lambda run, text: text
) -> Contest:
    """The pairs of the runs' answers to the same questions, each method's with each other's of the same repeat.

    limit: the number of questions, drawn by the seed; None takes all. read: an answer of a run as people read it.
    Raises DataError where fewer than two methods answered a question in common, or never differently.
    """
    names = method_names(runs)
    texts: dict[str, str] = {}
    answers: dict[_Place, dict[str, str]] = defaultdict(dict)
    found = Contest(tuple(names))
    for name, run in zip(names, runs, strict=True):
        for place, question, answer in _answers(run, read):
            texts[place.question] = question
            if answer:
                answers[place][name] = answer
            else:
                found.missing += 1
    shared = {place: given for place, given in answers.items() if len(given) > 1}
    if not shared:
        raise DataError("the arena needs answers of at least two methods to the same questions", path=_where(runs))
    kept = _drawn({place.question for place in shared}, limit, seed)
    for place, given in shared.items():
        if place.question in kept:
            _add_pairs(found, place.question, texts[place.question], given)
    if not found.pairs:
        raise DataError("these methods gave the same answers to every question: nothing to compare", path=_where(runs))
    return found


def method_names(runs: Sequence[RunFolder]) -> list[str]:
    """A name for each run: its method and budget, with the model and the folder's name where these are needed."""
    configs = [run.config for run in runs]
    models = len({config.model for config in configs}) > 1
    names = [f"{label(config)} {config.model}" if models else label(config) for config in configs]
    seen = Counter(names)
    named = [
        f"{name} ({run.path.resolve().name})" if seen[name] > 1 else name for name, run in zip(names, runs, strict=True)
    ]
    for number, name in enumerate(named):
        if name in named[:number]:
            named[number] = f"{name} {number + 1}"
    return named


def _where(runs: Sequence[RunFolder]) -> str:
    return ", ".join(str(run.path) for run in runs[:3])


def _answers(run: RunFolder, read: Read) -> Iterator[tuple[_Place, str, str]]:
    """Each question's place, its text, and the answer to it; an empty answer where there is none."""
    for trajectory in run.solved():
        about = trajectory.metadata
        key = fingerprint("question", run.config.task, str(about.get("example", trajectory.id)), trajectory.question)
        repeat = about.get("repeat", 0)
        said = read(run, trajectory.answer.text) if trajectory.answer is not None else ""
        yield _Place(key, repeat if isinstance(repeat, int) else 0), _shown(trajectory.question), _shown(said)


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MOST else f"{text[:MOST]}\n\n[the rest, {len(text) - MOST} characters, is not shown]"


def _drawn(questions: Iterable[str], limit: int | None, seed: int) -> set[str]:
    ordered = sorted(questions)
    random.Random(seed).shuffle(ordered)
    return set(ordered[:limit])


def _add_pairs(found: Contest, question: str, text: str, given: dict[str, str]) -> None:
    for (one, said), (other, reply) in combinations(given.items(), 2):
        if said == reply:
            found.same += 1
            continue
        (first, left), (second, right) = sorted(((said, one), (reply, other)))
        key = fingerprint("pair", question, first, second)
        known = found.pairs.get(key)
        matches = (*(known.matches if known is not None else ()), (left, right))
        found.pairs[key] = Pair(key, question, text, first, second, tuple(dict.fromkeys(matches)))
