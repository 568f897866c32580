"""`reground judge`: models rate the answers of finished runs, and how well they agree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from reground.app.cli.console import listed, print_tables, say
from reground.app.cli.flags import ConfigFile, Quiet, flattened
from reground.app.cli.progress import Progress, opened_model
from reground.app.options import Judging
from reground.core.errors import ConfigurationError, DataError
from reground.core.journal import SqliteJournal
from reground.evaluation.judging import (
    Answer,
    Rater,
    agreement_table,
    answers_of,
    by_metric,
    by_people,
    mean_table,
    rate,
)
from reground.evaluation.results import find_runs, write_text
from reground.evaluation.tasks import load_tasks
from reground.evaluation.tasks.longform import Judge, read_labels


@flattened("folders", "judges", "people", "data", "out", "dry_run", "quiet")
def judge(options: Judging, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Rate the answers of runs by several judges, and compare them with each other, the task's metric and people.

    The page has each run's mean with the standard deviation over repeats, before and after the method's own checks,
    and Pearson's and Spearman's correlations with p. The runs stay as they are. The same command resumes.

    Example:  reground judge runs/agent runs/rag --judges openai/large,openai/small --people labels.jsonl
    """
    all_runs = find_runs(options.folders)
    runs = {run.path.name: run for run in all_runs}
    if len(runs) < len(all_runs):
        raise ConfigurationError("two of these run folders have the same name: rename one")
    tasks = load_tasks({run.config.task for run in all_runs}, options.data, own=listed(options.tasks))
    answers = [answer for name, run in runs.items() for answer in answers_of(run, name, tasks[run.config.task])]
    if not answers:
        raise DataError("these runs have no answers to rate", path=options.folders[0])
    if options.dry_run:
        judges, texts = len(listed(options.judges)), len({answer.judged for answer in answers})
        return say(f"{len(answers)} answers; each of {judges} judges rates {texts} that differ")
    people = [by_people(answers, read_labels(options.people))] if options.people is not None else []
    out = options.out or options.folders[0]
    out.mkdir(parents=True, exist_ok=True)
    raters = asyncio.run(_rated(options, answers, out / "judges.sqlite", quiet=quiet))
    metrics = dict.fromkeys(run.config.primary for run in runs.values())
    raters += [rater for rater in (by_metric(metric, answers, runs) for metric in metrics) if rater.ratings]
    raters += people
    notes = [f"- {rater.name}: {rater.unread} ratings could not be read." for rater in raters if rater.unread]
    notes.append("- p: two-sided, from a permutation test. Repeats of a question are averaged first.")
    tables = [table for table in (mean_table(raters, [*runs]), agreement_table(raters)) if table.rows]
    print_tables(*tables)
    say("\n".join(notes))
    page = out / "judges.md"
    write_text(page, "\n\n".join(["# Judges", *(table.markdown() for table in tables), "\n".join(notes)]) + "\n")
    say(f"written: {page}")


async def _rated(options: Judging, answers: Sequence[Answer], replies: Path, *, quiet: bool) -> list[Rater]:
    """What each judge says. Their replies are recorded, so that the same command resumes."""
    raters, texts = [], len({answer.judged for answer in answers})
    with closing(SqliteJournal(replies)) as journal:
        for name in listed(options.judges):
            async with opened_model(name, options.model_options, quiet=quiet) as model:
                with Progress(name, visible=not quiet) as progress:
                    judge, tell = Judge(model=model), partial(progress.count, total=texts, unit="answers")
                    raters.append(await rate(answers, judge, journal, concurrency=options.concurrency, on_text=tell))
    return raters
