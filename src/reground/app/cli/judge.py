"""`reground judge`: models rate the answers of finished runs, and how well they agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from reground.app.cli.console import consoles, listed, say
from reground.app.cli.flags import ConfigFile, Quiet, flattened
from reground.app.cli.progress import Progress, opened_model
from reground.app.options import Judging
from reground.core.errors import ConfigurationError, DataError
from reground.core.files import expanded
from reground.core.journal import Journal, SqliteJournal
from reground.core.language import LanguageModel
from reground.evaluation.blind_pairs import Vote, model_votes, page, pairs_of, rating_tables, read_votes
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
from reground.evaluation.report import Table
from reground.evaluation.results import RunFolder, find_runs, write_text
from reground.evaluation.tasks import load_tasks
from reground.evaluation.tasks.longform import Judge, read_labels

Outcome = TypeVar("Outcome")


@flattened("folders", "judges", "page", "pairs", "people", "data", "out", "dry_run", "quiet")
def judge(options: Judging, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Rate the answers of runs by several judges, and compare them with each other, the task's metric and people.

    The page has each run's mean with the standard deviation over repeats, before and after the method's own checks,
    and Pearson's and Spearman's correlations with p. The runs stay as they are. The same command resumes.

    For people, --page writes a page of blind pairs: two answers to a question, and nobody is told whose they are. It
    saves votes as a file. --people rates the runs by them with TrueSkill; judges compare the same pairs.

    Example:  reground judge runs/agent runs/rag --judges openai/large,openai/small --people labels.jsonl
    """
    # --people one.json two.json
    more = [path for path in options.folders if path.is_file()] if options.people else []
    found = find_runs([folder for folder in options.folders if folder not in more])
    people = [*options.people, *more]
    ratings = [path for path in people if path.suffix == ".jsonl"]
    runs = {run.path.name: run for run in found}
    if len(runs) < len(found):
        raise ConfigurationError("two of these run folders have the same name: rename one")
    tasks = load_tasks({run.config.task for run in found}, options.data, own=listed(options.tasks))
    answers = [answer for name, run in runs.items() for answer in answers_of(run, name, tasks[run.config.task])]
    if not answers:
        raise DataError("these runs have no answers to rate", path=options.folders[0])
    by_pairs = options.page is not None or options.pairs or bool(people and not ratings)
    if ratings and (by_pairs or len(people) > 1):
        raise ConfigurationError(f"{ratings[0]} has ratings of single answers, which are compared alone: without pairs")
    if by_pairs:
        _compare(options, people, [*runs], answers, quiet=quiet)
    elif options.judges:
        _rate(options, runs, answers, ratings, quiet=quiet)
    else:
        raise ConfigurationError("nobody judges: give --judges, or --page for people to compare answers")


def _rate(
    options: Judging, runs: dict[str, RunFolder], answers: Sequence[Answer], ratings: Sequence[Path], *, quiet: bool
) -> None:
    """Have the judges rate each answer by itself. ratings: files of people's."""
    texts = len({answer.judged for answer in answers})
    if options.dry_run:
        judges = len(listed(options.judges))
        return say(f"{len(answers)} answers; each of {judges} judges rates {texts} that differ")
    people = [by_people(answers, read_labels(path)) for path in ratings]

    async def one(model: LanguageModel, journal: Journal, on_item: Callable[[int], None]) -> Rater:
        return await rate(answers, Judge(model=model), journal, concurrency=options.concurrency, on_text=on_item)

    raters = _each_judge(options, one, texts, "answers", quiet=quiet)
    metrics = dict.fromkeys(run.config.primary for run in runs.values())
    raters += [rater for rater in (by_metric(metric, answers, runs) for metric in metrics) if rater.ratings]
    raters += people
    notes = [f"- {rater.name}: {rater.unread} ratings could not be read." for rater in raters if rater.unread]
    notes.append("- p: two-sided, from a permutation test. Repeats of a question are averaged first.")
    return _print(_out(options) / "judges.md", "Judges", [mean_table(raters, [*runs]), agreement_table(raters)], notes)


def _compare(
    options: Judging, files: Sequence[Path], runs: Sequence[str], answers: Sequence[Answer], *, quiet: bool
) -> None:
    """Write the page of blind pairs, or count people's votes on them and let the judges vote."""
    pairs = pairs_of(answers)
    questions = len({(pair.question, pair.text) for pair in pairs})
    summary = f"{len(pairs)} pairs of {len(runs)} runs on {questions} questions"
    if options.dry_run:
        return say(f"{summary}; each judge is asked {2 * len(pairs)} times")
    if options.page is not None:
        write_text(expanded(options.page), page(pairs, options.seed))
        return say(f"{summary}; written: {options.page}")
    votes = read_votes(map(expanded, files), pairs)

    async def one(model: LanguageModel, journal: Journal, on_item: Callable[[int], None]) -> tuple[list[Vote], int]:
        return await model_votes(model, pairs, journal, concurrency=options.concurrency, on_pair=on_item)

    lacking = 0
    for cast, unread in _each_judge(options, one, len(pairs), "pairs", quiet=quiet):
        votes += cast
        lacking += unread
    people = len({vote.judge for vote in votes if vote.person})
    notes = [f"- {summary}; {len(votes)} votes, of {people} people and {len(listed(options.judges))} models."]
    notes.append("- A tie and two bad answers are a draw, half a win. The interval is a bootstrap over questions.")
    notes += [f"- Models gave no readable verdict on {lacking} pairs."] if lacking else []
    return _print(_out(options) / "pairs.md", "Blind pairs", rating_tables(runs, votes), notes)


def _each_judge(
    options: Judging,
    ask: Callable[[LanguageModel, Journal, Callable[[int], None]], Awaitable[Outcome]],
    total: int,
    unit: str,
    *,
    quiet: bool,
) -> list[Outcome]:
    """What each judge says. Their replies are recorded, so that the same command resumes."""

    async def work(journal: Journal) -> list[Outcome]:
        outcomes = []
        for name in listed(options.judges):
            async with opened_model(name, options.model_options, quiet=quiet) as model:
                with Progress(name, shown=not quiet) as progress:
                    outcomes.append(await ask(model, journal, lambda done: progress.count(done, total, unit)))
        return outcomes

    out = _out(options)
    out.mkdir(parents=True, exist_ok=True)
    with closing(SqliteJournal(out / "judges.sqlite")) as journal:
        return asyncio.run(work(journal))


def _out(options: Judging) -> Path:
    return options.out or next(folder for folder in options.folders if folder.is_dir())


def _print(page: Path, title: str, tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Print the tables that say something, and write them to a page."""
    tables = [table for table in tables if table.rows]
    for table in tables:
        consoles()[0].print(table.terminal())
    say("\n".join(notes))
    write_text(page, "\n\n".join([f"# {title}", *(table.markdown() for table in tables), "\n".join(notes)]) + "\n")
    say(f"written: {page}")
