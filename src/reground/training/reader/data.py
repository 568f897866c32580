"""Demonstrations for a reader: `grounded` answers training questions with an oracle in the model's place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reground.core.evidence import Pages, Retriever
from reground.core.language import Message
from reground.core.run import Run
from reground.evaluation.metrics.text import hit
from reground.evaluation.task import Example, Task, hidden_documents
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
        supports = await _supports(task, example, pages)
        if isinstance(supports, str):
            made.left_out[supports] += 1
        else:
            lessons: dict[tuple[Message, ...], Lesson] = {}
            for repeat in range(settings.repeats):
                drawn = await _lessons(task, example, supports, retriever, settings, repeat)
                lessons |= {lesson.messages: lesson for lesson in drawn}
            for lesson in lessons.values():
                made.rows.append(
                    Demonstration(question=example.id, messages=lesson.messages, extra={"kind": lesson.kind})
                )
                made.kinds[lesson.kind] += 1
        on_question(done)
    return made


async def _supports(task: Task, example: Example, pages: Pages) -> list[Support] | str:
    """What each gold passage says, or why the question cannot be used."""
    gold = evidence_of(task, example)
    if isinstance(gold, str):
        return "questions without known gold passages"
    found = [await pages.page(each) for each in gold]
    opened = [page for page in found if page is not None and page.text.strip()]
    if len(opened) < len(gold):
        return "questions whose gold passages the corpus lacks"
    if not example.golden_answers:
        return "questions without a gold answer"
    supports = [support(page, example) for page in opened]
    if hit(example.golden_answers, [page.text for page in opened]) == 0:
        return "questions whose gold passages do not hold the answer"
    return supports


async def _lessons(
    task: Task, example: Example, supports: Sequence[Support], retriever: Retriever, settings: Reading, repeat: int
) -> list[Lesson]:
    """What is to be learnt from one question, in the size and with the gaps that chance draws.

    Of two prompts with the same answer one is drawn: the second teaches little and is twice as long.
    """
    draw = random.Random(f"{settings.seed}/{example.id}/{repeat}")
    hidden = hidden_documents(task, example)
    if draw.random() < settings.unanswerable:
        hidden |= frozenset(evidence_of(task, example))
    oracle = Oracle(example, supports)
    reader = Grounded(
        model=oracle, retriever=retriever, form=task.form, k=draw.randint(2, settings.most_passages), max_rounds=1,
        passage_tokens=settings.passage_tokens, brief=True, abstain=True,
    )  # fmt: skip
    await reader.solve(example.question, Run(hidden=hidden))
    answers = [lesson for lesson in oracle.lessons if lesson.kind == "answer"]
    kept = draw.choice(answers) if answers else None
    return [lesson for lesson in oracle.lessons if lesson.kind != "answer" or lesson is kept]
