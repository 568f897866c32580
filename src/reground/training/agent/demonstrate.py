"""Demonstrations for the Search Agent: it answers training questions with an oracle in the model's place."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from reground.core.evidence import Pages, Passage, Retriever
from reground.core.run import Run
from reground.evaluation.task import Example, Task, hidden_documents
from reground.methods.search_agent import FINISH, SearchAgent
from reground.methods.search_agent.steps import ANSWER
from reground.training.agent.oracle import Oracle
from reground.training.agent.settings import Demonstrating
from reground.training.gold import Completed, Gold, Lesson, Lessons, by_kind, taught


async def demonstrations(
    task: Task,
    examples: Sequence[Example],
    retriever: Retriever,
    pages: Pages,
    settings: Demonstrating,
    *,
    on_question: Callable[[int], None] = lambda done: None,
) -> Lessons:
    """What an oracle says in the agent's place over the examples; the same call gives the same rows.

    retriever: what the agent will search with. pages: where the gold passages are opened.
    """
    teach = partial(_lessons, task, retriever, settings)
    return await taught(task, examples, pages, teach, on_question)


async def _lessons(
    task: Task, retriever: Retriever, settings: Demonstrating, example: Example, gold: Sequence[Passage]
) -> list[Lesson]:
    """What is to be learnt from one question. The short answer is taught only where the long one was found.

    Of several steps of one kind one is drawn: the first decision is nearly always the same.
    """
    draw, k = random.Random(f"{settings.seed}/{example.id}"), settings.k
    if draw.random() < settings.complete:
        retriever, k = Completed(retriever, gold, draw), max(k, len(gold))
    oracle = Oracle(example.question, Gold.of(example, gold))
    agent = SearchAgent(
        model=oracle, retriever=retriever, form=task.form, k=k, max_searches=settings.max_searches,
        snippet_tokens=settings.snippet_tokens, samples=1, temperature=0, shots=0, checks=False,
    )  # fmt: skip
    await agent.solve(example.question, Run(hidden=hidden_documents(task, example)))
    kinds = by_kind(oracle.lessons)
    if ANSWER.name not in kinds:
        kinds.pop(FINISH, None)
    return [draw.choice(same) for same in kinds.values()]
