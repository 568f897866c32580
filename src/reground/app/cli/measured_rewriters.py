"""Measures the rewriters of a training for `train rewriter eval`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reground.app.cli import _common as common
from reground.app.cli.background import in_background
from reground.app.cli.rewriter_pipeline import searching, with_reader
from reground.app.identity import resolved
from reground.evaluation.task import Example
from reground.training.rewriter.evaluate import (
    FOUND,
    PROMPTED,
    QUESTION,
    Rewriter,
    Write,
    measurable,
    measure_rewriter,
    prompted,
)
from reground.training.rewriter.reward import PipelineReward, metrics_of, without_reader
from reground.training.rewriter.train import MODEL, WARMUP, trained_rewriter

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.options_rewriter import RewriterEval
    from reground.evaluation.task import Task
    from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead

_RULES = 2
"""How questions are measured. Up to 1, one that was not searched for had no hit, and what no reader saw had a place."""

FOUND_TITLE, ANSWERED_TITLE = "What the queries find", "What the reader answers"

Group = tuple[list[Rewriter], list[str]]
"""Rewriters on the same questions, and the metrics that they have."""


async def measured_rewriters(
    order: RewriterEval, task: Task, examples: Sequence[Example], err: Console, *, quiet: bool
) -> dict[str, Group]:
    """What each rewriter finds, and with --answered what the reader makes of it; only what the task has metrics for."""
    from reground.core.errors import ConfigurationError

    async with AsyncExitStack() as opened:
        reads = bool(order.answered or order.prompted)
        if reads:
            method = await with_reader(order, task, err, opened, quiet=quiet)
        else:
            method = await searching(order, task, err, opened, quiet=quiet)
        writers: dict[str, Write | None] = {QUESTION: None}
        if order.prompted:
            writers[f"{PROMPTED} {order.model}"] = prompted(method, method.model, task)
        writers |= {name: _writer(name) for name in _models(order)}

        async def measured(method: RewriteRetrieveRead, some: Sequence[Example], what: str) -> list[Rewriter]:
            reward = PipelineReward(method, task, {})
            made = []
            for name, write in writers.items():
                told = _teller(err, f"{what}: {name}", len(some), quiet=quiet)
                kept = _file(order, task, method, name)
                made.append(await measure_rewriter(name, some, write, reward, kept, on_question=told))
            return made

        groups: dict[str, Group] = {}
        found = await measured(without_reader(method), examples, "searching")
        if metrics := measurable(found, FOUND):
            groups[FOUND_TITLE] = found, metrics
        if order.answered:
            answered = await measured(method, examples[: order.answered], "answering")
            groups[ANSWERED_TITLE] = answered, measurable(answered, list(dict.fromkeys([*metrics_of(task), *FOUND])))
    if not groups:
        raise ConfigurationError(f"{task.name} has no metric of what is found: give --answered and a --model to answer")
    return groups


def _models(order: RewriterEval) -> list[str]:
    """The models to measure: those given, or the training's own, the result of PPO last."""
    if order.models is not None:
        return [each.strip() for each in order.models.split(",") if each.strip()]
    return [str(order.out / name) for name in (WARMUP, "rloo", "grpo", MODEL) if (order.out / name).is_dir()]


def _writer(name: str) -> Write:
    write = trained_rewriter(name)

    async def written(examples: Sequence[Example]) -> Sequence[str]:
        return await in_background(partial(write, [example.question for example in examples]))

    return written


def _file(order: RewriterEval, task: Task, method: RewriteRetrieveRead, name: str) -> Path:
    """Where a rewriter's rows are kept: another file for other weights, documents, readers, settings or rules."""
    folder = Path(name)
    weights = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(folder.glob("*"))
        if file.suffix in {".safetensors", ".bin"}
    ]
    retriever = getattr(method.retriever, "name", "")
    about = (_RULES, task.name, name, weights, retriever, method.model.name, sorted(resolved(method).items()))
    return order.out / "eval" / f"{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}.jsonl"


def _teller(err: Console, what: str, total: int, *, quiet: bool) -> Callable[[int], None]:
    def tell(done: int) -> None:
        if not quiet and (done == total or done % 64 == 0):
            common.say(err, f"{what}: {done} of {total} questions")

    return tell
