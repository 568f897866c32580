"""Demonstrations for a reader: `grounded` answers training questions with an oracle in the model's place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reground.core.evidence import Pages, Passage, Retriever
from reground.core.language import Message
from reground.core.run import Run
from reground.evaluation.metrics.text import hit
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks._retrieved import document_id
from reground.evaluation.tasks.qa import evidence_of
from reground.methods.grounded import Grounded
from reground.training.reader.oracle import Lesson, Oracle, Support, support
from reground.training.reader.settings import Reading
from reground.training.rows import Demonstration


@dataclass
class Lessons:
    """Rows, how many there are of each kind, and why questions gave none."""

    rows: list[Demonstration] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def describe(self) -> str:
        """One line with the numbers."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kinds.items()))
        left = ", ".join(f"{number} {why}" for why, number in sorted(self.left_out.items()))
        return f"{len(self.rows)} demonstrations ({kinds})" + (f"; left out: {left}" if left else "")


async def demonstrations(
    task: Task,
    examples: Sequence[Example],
    retriever: Retriever,
    pages: Pages,
    settings: Reading,
    *,
    on_question: Callable[[int], None] = lambda done: None,
) -> Lessons:
    """What an oracle says in `grounded` over the examples; the same call gives the same rows.

    retriever: what the reader will search with. pages: where the gold passages are opened.
    """
    made = Lessons()
    for done, example in enumerate(examples, start=1):
        gold = await _gold(task, example, pages)
        if isinstance(gold, str):
            made.left_out[gold] += 1
        else:
            supports = [support(page, example) for page in gold]
            lessons: dict[tuple[Message, ...], Lesson] = {}
            for repeat in range(settings.repeats):
                drawn = await _lessons(task, example, gold, supports, retriever, settings, repeat)
                lessons |= {lesson.messages: lesson for lesson in drawn}
            for lesson in lessons.values():
                made.rows.append(
                    Demonstration(question=example.id, messages=lesson.messages, extra={"kind": lesson.kind})
                )
                made.kinds[lesson.kind] += 1
        on_question(done)
    return made


async def _gold(task: Task, example: Example, pages: Pages) -> list[Passage] | str:
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


async def _lessons(
    task: Task,
    example: Example,
    gold: Sequence[Passage],
    supports: Sequence[Support],
    retriever: Retriever,
    settings: Reading,
    repeat: int,
) -> list[Lesson]:
    """What is to be learnt from one question, in the size and with the gaps that chance draws.

    Of two prompts of one kind one is drawn: the second teaches little and is twice as long. Where the gold
    passages are put among those found, there is no second round.
    """
    draw = random.Random(f"{settings.seed}/{example.id}/{repeat}")
    hidden = hidden_documents(task, example)
    k, chance, rounds = draw.randint(2, settings.most_passages), draw.random(), 1
    if chance < settings.unanswerable:
        hidden |= frozenset(evidence_of(task, example))
    elif chance < settings.unanswerable + settings.complete:
        retriever, k, rounds = Completed(retriever, gold, draw), max(k, len(gold)), 0
    oracle = Oracle(example, supports)
    reader = Grounded(
        model=oracle, retriever=retriever, form=task.form, k=k, max_rounds=rounds,
        passage_tokens=settings.passage_tokens, brief=True, abstain=True,
    )  # fmt: skip
    await reader.solve(example.question, Run(hidden=hidden))
    kinds: dict[str, list[Lesson]] = {}
    for lesson in oracle.lessons:
        kinds.setdefault(lesson.kind, []).append(lesson)
    return [draw.choice(same) for same in kinds.values()]
