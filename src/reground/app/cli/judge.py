"""`reground judge`: models rate the answers of finished runs, and how well they agree."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_evaluation import Judging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from reground.core.journal import Journal
    from reground.evaluation.judging import Answer, Rater
    from reground.evaluation.results import RunFolder

PAGE, REPLIES = "judges.md", "judges.sqlite"


@flattened
def judge(order: Judging, voice: Quiet, config: ConfigFile = None) -> None:
    """Rate the answers of runs by several judges, and compare them with each other, the task's metric and people.

    The page has each run's mean with the standard deviation over repeats, before and after the method's own checks,
    and Pearson's and Spearman's correlations with p. The runs stay as they are. The same command resumes.

    Example:  reground judge runs/agent runs/rag --judges openai/large,openai/small --people labels.jsonl
    """
    from reground.core.journal import SqliteJournal
    from reground.evaluation.judging import agreement_table, by_metric, by_people, mean_table
    from reground.evaluation.results import find_runs, write_text
    from reground.evaluation.tasks.longform import read_labels

    console, err = common.consoles()
    found = find_runs(order.folders)
    runs = _named(found)
    answers = _answers(order, runs)
    names = common.listed(order.judges)
    if order.dry_run:
        texts = len({answer.judged for answer in answers})
        common.say(console, f"{len(answers)} answers; each of {len(names)} judges rates {texts} that differ")
        return
    labels = None if order.people is None else read_labels(order.people)
    people = [] if labels is None else [by_people(answers, labels)]
    out = order.out or order.folders[0]
    out.mkdir(parents=True, exist_ok=True)
    journal = SqliteJournal(out / REPLIES)
    try:
        raters = asyncio.run(_rated(order, names, answers, journal, err, quiet=voice.quiet))
    finally:
        journal.close()
    metrics = dict.fromkeys(run.config.primary for run in found)
    raters += [rater for rater in (by_metric(metric, answers, runs) for metric in metrics) if rater.ratings]
    raters += people
    tables = [mean_table(raters, list(runs)), agreement_table(raters)]
    for table in tables:
        console.print(table.terminal())
    notes = [f"- {rater.name}: {rater.unread} ratings could not be read." for rater in raters if rater.unread]
    notes.append("- p: two-sided, from a permutation test. Repeats of a question are averaged first.")
    common.say(console, "\n".join(notes))
    write_text(out / PAGE, "\n\n".join(["# Judges", *(table.markdown() for table in tables), "\n".join(notes)]) + "\n")
    common.say(console, f"written: {out / PAGE}")


def _named(found: Sequence[RunFolder]) -> dict[str, RunFolder]:
    """The runs by the names of their folders. Raises ConfigurationError for two of one name."""
    from reground.core.errors import ConfigurationError

    runs = {run.path.name: run for run in found}
    if len(runs) < len(found):
        raise ConfigurationError("two of these run folders have the same name: rename one")
    return runs


def _answers(order: Judging, runs: dict[str, RunFolder]) -> list[Answer]:
    from reground.core.errors import DataError
    from reground.evaluation.judging import answers_of
    from reground.evaluation.tasks import load_tasks

    names = {run.config.task for run in runs.values()}
    tasks = load_tasks(names, order.data, own=common.listed(order.tasks))
    answers = [answer for name, run in runs.items() for answer in answers_of(run, name, tasks[run.config.task])]
    if not answers:
        raise DataError("these runs have no answers to rate", path=order.folders[0])
    return answers


async def _rated(
    order: Judging, names: Sequence[str], answers: Sequence[Answer], journal: Journal, err: Console, *, quiet: bool
) -> list[Rater]:
    from reground.app.cli.preparing import opened_model
    from reground.evaluation.judging import rate
    from reground.evaluation.tasks.longform import Judge

    raters = []
    for name in names:

        def told(done: int, name: str = name) -> None:
            if not quiet and (done % 50 == 0 or done == len(answers)):
                common.say(err, f"{name}: {done} of {len(answers)} answers")

        async with opened_model(name, order.model_options, err, quiet=quiet) as model:
            judge = Judge(model=model)
            raters.append(await rate(answers, judge, journal, concurrency=order.concurrency, on_answer=told))
    return raters


def register(cli: typer.Typer) -> None:
    """Add the command of this file."""
    cli.command()(judge)
