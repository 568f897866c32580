"""Demonstrations for a reader: `grounded` answers training questions with an oracle in the model's place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from reground.core.evidence import Pages, Passage, Retriever
from reground.core.language import Message
from reground.core.run import Run
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.qa import evidence_of
from reground.methods.grounded import Grounded
from reground.training.gold import Completed, Gold, Lesson, Lessons, by_kind, taught
from reground.training.reader.oracle import Oracle
from reground.training.reader.settings import Reading


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

    async def teach(example: Example, gold: Sequence[Passage]) -> Iterable[Lesson]:
        lessons: dict[tuple[Message, ...], Lesson] = {}
        for repeat in range(settings.repeats):
            drawn = await _lessons(task, example, gold, retriever, settings, repeat)
            lessons |= {lesson.messages: lesson for lesson in drawn}
        return lessons.values()

    return await taught(task, examples, pages, teach, on_question)


async def _lessons(
    task: Task,
    example: Example,
    gold: Sequence[Passage],
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
    oracle = Oracle(Gold.of(example, gold))
    reader = Grounded(
        model=oracle, retriever=retriever, form=task.form, k=k, max_rounds=rounds,
        passage_tokens=settings.passage_tokens, brief=True, abstain=True,
    )  # fmt: skip
    await reader.solve(example.question, Run(hidden=hidden))
    return [draw.choice(same) for same in by_kind(oracle.lessons).values()]
