"""What the stages of `train agent` do, without their words on the screen; `train agent loop` uses them too."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reground.app.cli import _common as common

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.options_agent import AgentFit, AgentGrow, AgentMix, AgentRank
    from reground.evaluation.results import Summary
    from reground.evaluation.task import Example, Task
    from reground.training.agent.mixture import Mixture

METHOD = "search_agent"


async def grown_by(order: AgentGrow, task: Task, out: Path, err: Console, *, quiet: bool) -> Summary:
    """Grow trajectories in OUT/grown, with the exemplars rotated, and write down their questions."""
    from reground.evaluation.splits import record_questions
    from reground.training.agent.rank import GROWN

    rotated = replace(order, settings={"exemplars": "rotated", **order.settings})
    record_questions(out, task.name, questions_of(order, task))
    return await answered_by(rotated, task, out / GROWN, err, quiet=quiet)


def questions_of(order: AgentGrow, task: Task) -> list[Example]:
    """The questions that a run draws."""
    from reground.evaluation.runner import EvalSettings, choose

    return choose(task, EvalSettings(METHOD, order.model, limit=order.limit or None, seed=order.seed))


async def answered_by(order: AgentGrow, task: Task, run: Path, err: Console, *, quiet: bool) -> Summary:
    """Let the agent answer the task's questions, in the run folder `run`; those that failed before, once more."""
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.app.cli.preparing import open_benches
    from reground.app.cluster.opening import opened_pool, placed
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings, evaluate

    cell = Cell(method=METHOD, tokens=order.budget.tokens)
    base = EvalSettings(
        METHOD, order.model, limit=order.limit or None, seed=order.seed, concurrency=order.concurrency,
        repeats=order.repeats, retry_failed=True,
    )  # fmt: skip
    total = len(questions_of(order, task)) * order.repeats
    async with AsyncExitStack() as opened:
        (bench,) = await open_benches(order, [task], [METHOD], run, err, opened, quiet=quiet)
        pool = await opened.enter_async_context(opened_pool(order, [METHOD], partial(common.say, err)))
        ready = placed(bench.configure(cell, base, order.budget), pool, order.task, cell, bench.tuned)
        with EvalProgress(err, {run.name: Work(cell, total)}, shown=not quiet) as progress:
            done = await evaluate(
                bench.task, ready.method, ready.settings, run, observer=partial(progress.on_progress, run.name),
                elsewhere=ready.elsewhere,
            )  # fmt: skip
    return done.summary


async def ranked_by(order: AgentRank, err: Console, *, quiet: bool) -> tuple[int, int]:
    """Rank the samples of each step. Returns the number ranked, and that of unread rankings."""
    from reground.app.cli.preparing import opened_model
    from reground.training.agent.rank import Ranker
    from reground.training.agent.rank import rank as rank_steps

    def told(done: int, total: int) -> None:
        if not quiet and (done % 50 == 0 or done == total):
            common.say(err, f"{done} of {total} steps")

    async with opened_model(order.model, order.model_options, err, quiet=quiet) as model:
        ranker = Ranker(model=model, style=order.style)
        return await rank_steps(order.out, ranker, concurrency=order.concurrency, on_turn=told)


def mixed_by(order: AgentMix) -> Mixture:
    """The mixture of the grown steps and of the rows added to them, not written yet."""
    from reground.training.agent.mixture import Mixture, mixture
    from reground.training.agent.rank import GROWN, failed_steps, grown, read_ranking_file, stated
    from reground.training.rows import Demonstration, read_rows

    added = [
        row
        for file in filter(None, map(str.strip, order.add.split(",")))
        for row in read_rows(Path(file), Demonstration)
    ]
    if added and not (order.out / GROWN).is_dir():
        return Mixture([]).adding(added)
    ranking = read_ranking_file(order.out) if order.by == "ranking" else None
    made = mixture(grown(order.out), stated(order.out), by=order.by, ranking=ranking, seed=order.seed, most=order.most)
    if failed := failed_steps(order.out):
        made.dropped["of failed questions"] = failed
    return made.adding(added)


def fitted_by(order: AgentFit, mixture: str, err: Console, *, quiet: bool) -> Path:
    """Fit the base on a mixture of the folder. Returns the model's place.

    Rows longer than max_length are left out: without the beginning of its prompt, a step is another one.
    """
    from reground.app.cli.background import in_background
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.agent.rank import read_mixture
    from reground.training.settings import fitting_of
    from reground.training.sft import fit_named

    rows = read_mixture(order.out, mixture)
    with FitProgress(err, order.name, shown=not quiet) as progress:
        fitted = partial(
            fit_named, order.out, order.name, rows, order.base, fitting_of(order), fresh=order.fresh,
            keep_epochs=order.keep_epochs, cut=False, on_step=progress.on_step, on_note=progress.on_note,
        )  # fmt: skip
        return asyncio.run(in_background(fitted))
