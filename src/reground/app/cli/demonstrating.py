"""Demonstrations that an oracle writes to the questions of training splits, for a reader or an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from reground.app.cli import _common as common

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from reground.app.options_agent import AgentDemonstrate
    from reground.app.options_reader import ReaderData
    from reground.core.evidence import Pages, Retriever
    from reground.evaluation.task import Example, Task
    from reground.training.oracles import Lessons

    Order = ReaderData | AgentDemonstrate


class Make(Protocol):
    """What an oracle says to the examples of a task."""

    async def __call__(
        self,
        task: Task,
        examples: Sequence[Example],
        retriever: Retriever,
        pages: Pages,
        *,
        on_question: Callable[[int], None],
    ) -> Lessons:
        """The rows."""
        ...


def demonstrate(order: Order, make: Make, *, method: str, name: str, questions: str, quiet: bool) -> None:
    """Write OUT/data/NAME.jsonl, and what is in it; or say what would be asked.

    method: draws the questions. questions: the file in OUT with their ids.
    """
    from reground.evaluation.runner import EvalSettings, choose
    from reground.evaluation.splits import record_questions
    from reground.evaluation.tasks import load_training_task
    from reground.training.report import write_section
    from reground.training.rows import Demonstration, write_demonstrations

    console, err = common.consoles()
    tasks = [load_training_task(each, order.data) for each in filter(None, map(str.strip, order.tasks.split(",")))]
    drawing = EvalSettings(method, "oracle", limit=order.limit or None, seed=order.seed)
    drawn = [(task, choose(task, drawing)) for task in tasks]
    if order.dry_run:
        for task, examples in drawn:
            common.say(console, f"would search for {len(examples)} questions of {task.name}")
        return
    rows: list[Demonstration] = []
    told = []
    for task, examples in drawn:
        made = asyncio.run(_made(order, make, task, examples, err, quiet=quiet))
        rows += made.rows
        told.append(f"{task.name}: {made.describe()}")
        common.say(console, told[-1])
    asked = [example for _, examples in drawn for example in examples]
    record_questions(order.out, ",".join(task.name for task in tasks), asked, file=questions)
    write_demonstrations(order.out / "data" / f"{name}.jsonl", rows)
    write_section(order.out, "data", "\n".join(f"- {line}" for line in told))


async def _made(order: Order, make: Make, task: Task, examples: list[Example], err: Console, *, quiet: bool) -> Lessons:
    from reground.app.benchmark import corpus_of
    from reground.app.cli.progress import AskProgress
    from reground.app.documents import check_reranker, close, corpus_retriever, reranked

    def told(done: int) -> None:
        if not quiet and (done % 100 == 0 or done == len(examples)):
            common.say(err, f"{done} of {len(examples)} questions")

    check_reranker(order)
    with AskProgress(err, shown=not quiet) as progress:
        pages = await corpus_retriever(
            corpus_of(task, order.corpus), progress.on_index, language=order.language, retrieval=order.retrieval
        )
    retriever = reranked(pages, order)
    try:
        return await make(task, examples, retriever, cast("Pages", pages), on_question=told)
    finally:
        await close(retriever)
