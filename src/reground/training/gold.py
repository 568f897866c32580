"""What an oracle knows of a training question: its answer, its gold passages, and what they say for the answer."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from reground.core.evidence import Pages, Passage, Retriever
from reground.core.language import Message
from reground.core.untrusted import neutralise
from reground.evaluation.metrics.text import hit
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks._retrieved import document_id
from reground.evaluation.tasks.qa import evidence_of
from reground.text.sentences import sentences
from reground.training.rows import Demonstration

_KIND = re.compile(r"\([^()]*\)\Z")


async def gold_passages(task: Task, example: Example, pages: Pages) -> list[Passage] | str:
    """The gold passages, or why the question cannot be used."""
    gold = evidence_of(task, example)
    if isinstance(gold, str):
        return "questions without known gold passages"
    found = [await pages.page(each) for each in gold]
    opened = [page for page in found if page is not None and page.text.strip()]
    if len(opened) < len(gold):
        return "questions whose gold passages the corpus lacks"
    if not example.golden_answers:
        return "questions without a gold answer"
    if hit(example.golden_answers, [page.text for page in opened]) == 0:
        return "questions whose gold passages do not hold the answer"
    return opened


@dataclass(frozen=True)
class Support:
    """What a gold passage says for the answer.

    sentences: any of them stands for the passage, the best first. decides: whether they hold the answer's words.
    """

    title: str
    sentences: tuple[str, ...]
    decides: bool

    def shown(self, prompt: str) -> str | None:
        """The first of its sentences that a prompt holds; None for a prompt that does not show the passage."""
        return next((each for each in self.sentences if each in prompt), None)


def support(page: Passage, example: Example) -> Support:
    """The sentences of a gold passage that count: all with the answer, supporting ones first; else a supporting one;
    else the first.

    Some datasets number their supporting sentences by another splitter, so an answer's words count for more. Of a
    comparison only the first counts: its answer is often a page's own name, which most sentences hold.
    """
    parts = [neutralise(part.strip()) for part in sentences(page.text) if part.strip()]
    facts = example.metadata.get("supporting_facts")
    pairs = [fact for fact in facts if isinstance(fact, list)] if isinstance(facts, list) else []
    marked = [parts[at] for title, at in pairs if title == page.title and isinstance(at, int) and at < len(parts)]
    holding = [part for part in parts if hit(example.golden_answers, [part])]
    both = [part for part in marked if part in holding]
    counting = list(dict.fromkeys([*both, *holding])) or marked or parts
    most = len(holding) if holding and not compares(example) else 1
    return Support(title=page.title, sentences=tuple(counting[:most]), decides=bool(holding))


def compares(example: Example) -> bool:
    """Whether the question compares its gold passages, so that only all of them together hold the answer."""
    return example.metadata.get("type") in {"comparison", "bridge_comparison"}


@dataclass(frozen=True)
class Gold:
    """The answer of one question, and what its gold passages say for it.

    An answer that stands in one passage needs this passage alone; that of a comparison, or a yes and no, needs all.
    """

    answer: str
    supports: tuple[Support, ...]
    needs_all: bool

    @classmethod
    def of(cls, example: Example, pages: Sequence[Passage]) -> Gold:
        """What is known of an example with these gold passages."""
        supports = tuple(dict.fromkeys(support(page, example) for page in pages))
        needs_all = compares(example) or not any(each.decides for each in supports)
        return cls(example.golden_answers[0], supports, needs_all)

    def enough(self, shown: Collection[Support]) -> bool:
        """Whether these hold the answer."""
        return len(shown) == len(self.supports) if self.needs_all else any(each.decides for each in shown)


def mentions(text: str, title: str) -> bool:
    """Whether a text has a title, but for what stands in brackets behind it. Only such a title can be named next."""
    return _KIND.sub("", title).strip().casefold() in text.casefold()


@dataclass(frozen=True)
class Lesson:
    """A prompt and the reply to learn. kind: what is asked for, and how it is answered."""

    kind: str
    messages: tuple[Message, ...]


def by_kind(lessons: Iterable[Lesson]) -> dict[str, list[Lesson]]:
    """The lessons of each kind, in order."""
    kinds: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        kinds.setdefault(lesson.kind, []).append(lesson)
    return kinds


@dataclass
class Lessons:
    """Rows, how many there are of each kind, and why questions gave none."""

    rows: list[Demonstration] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, example: Example, lessons: Iterable[Lesson]) -> None:
        """Add what one question teaches."""
        for lesson in lessons:
            self.rows.append(Demonstration(question=example.id, messages=lesson.messages, extra={"kind": lesson.kind}))
            self.kinds[lesson.kind] += 1

    def describe(self) -> str:
        """One line with the numbers."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kinds.items()))
        left = ", ".join(f"{number} {why}" for why, number in sorted(self.left_out.items()))
        return f"{len(self.rows)} demonstrations ({kinds})" + (f"; left out: {left}" if left else "")


@dataclass(frozen=True)
class Completed:
    """A search that always finds the gold passages: those it misses take the place of its last, wherever chance puts
    them.
    """

    retriever: Retriever
    gold: Sequence[Passage]
    draw: random.Random

    @property
    def name(self) -> str:
        """As the search that it completes."""
        return self.retriever.name

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """At least as many passages as there are gold ones."""
        wanted = {page.id for page in self.gold}
        found = list(await self.retriever.retrieve(query, k=k))
        there = {document_id(passage.id, wanted) for passage in found}
        missing = [page for page in self.gold if page.id not in there]
        room = max(k, len(self.gold)) - len(missing)
        others = [passage for passage in found if document_id(passage.id, wanted) not in wanted]
        for passage in others[::-1][: max(0, len(found) - room)]:
            found.remove(passage)
        for page in missing:
            found.insert(self.draw.randint(0, len(found)), page)
        return found


async def taught(
    task: Task,
    examples: Sequence[Example],
    pages: Pages,
    teach: Callable[[Example, Sequence[Passage]], Awaitable[Iterable[Lesson]]],
    on_question: Callable[[int], None],
) -> Lessons:
    """What the questions teach whose gold passages are known. teach: asks an oracle one question."""
    made = Lessons()
    for done, example in enumerate(examples, start=1):
        gold = await gold_passages(task, example, pages)
        if isinstance(gold, str):
            made.left_out[gold] += 1
        else:
            made.add(example, await teach(example, gold))
        on_question(done)
    return made
