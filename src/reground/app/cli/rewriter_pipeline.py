"""Opens the method whose queries `train rewriter` rewards and measures, with its reader or without."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue
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
    """The method without a reader. Raises ConfigurationError for a setting that it does not have."""
    from reground.app.benchmark import corpus_of, settings_by_method
    from reground.app.catalogue import build_method
    from reground.app.cli.progress import AskProgress
    from reground.app.documents import Source, check_reranker, open_source
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
    from reground.training.rewriter.reward import NO_READER

    check_reranker(order)
    settings = settings_by_method({"total": order.passages, **order.settings}, [METHOD])[METHOD]
    with AskProgress(err, shown=not quiet) as preparing:
        retriever = await open_source(
            Source(corpus_of(task, order.corpus), usual=None),
            order,
            opened,
            on_index=preparing.on_index,
            on_report=preparing.on_report,
        )
    method = build_method(METHOD, model=NO_READER, retriever=retriever, form=task.form, settings=settings)
    assert isinstance(method, RewriteRetrieveRead)
    return method


def recorded(method: RewriteRetrieveRead, task: Task) -> dict[str, JsonValue]:
    """What a reward depends on beside its weights, as plain data."""
    from reground.app.identity import resolved

    parts = {"task": task.name, "retriever": getattr(method.retriever, "name", None), "reader": method.model.name}
    return {**parts, **{f"method.{name}": value for name, value in resolved(method).items()}}
