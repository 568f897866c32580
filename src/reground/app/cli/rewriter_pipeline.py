"""Opens the method whose queries `train rewriter` rewards and measures, with its reader or without."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.options_rewriter import RewriterEval, RewriterPpo
    from reground.evaluation.task import Task
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead

METHOD = "rewrite_retrieve_read"


async def with_reader(
    order: RewriterPpo | RewriterEval, task: Task, err: Console, opened: AsyncExitStack, *, quiet: bool
) -> RewriteRetrieveRead:
    """The method with the model as its reader."""
    from reground.app.cli.preparing import open_benches
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead

    chosen = replace(order, settings={"total": order.passages, **order.settings})
    (bench,) = await open_benches(chosen, [task], [METHOD], order.out, err, opened, quiet=quiet)
    method = bench.configure(Cell(method=METHOD, tokens=None), EvalSettings(METHOD, order.model), order.budget).method
    assert isinstance(method, RewriteRetrieveRead)
    return method


async def searching(
    order: RewriterPpo | RewriterEval, task: Task, err: Console, opened: AsyncExitStack, *, quiet: bool
) -> RewriteRetrieveRead:
    """The method without a reader."""
    from reground.app.asking import close
    from reground.app.cli.progress import AskProgress
    from reground.app.evaluating import corpus_of, open_documents
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
    from reground.training.rewriter.reward import NO_READER

    with AskProgress(err, shown=not quiet) as preparing:
        retriever = await open_documents(
            corpus_of(task, order.corpus), order, on_index=preparing.on_index, on_report=preparing.on_report
        )
    opened.push_async_callback(close, retriever)
    return RewriteRetrieveRead(model=NO_READER, retriever=retriever, form=task.form, total=order.passages)
