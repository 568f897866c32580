"""`reground judge`: models rate the answers of finished runs, and how well they agree."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_evaluation import Judging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from rich.console import Console

    from reground.core.journal import Journal
    from reground.core.language import LanguageModel
    from reground.evaluation.judging import Answer, Rater
    from reground.evaluation.report import Table
    from reground.evaluation.results import RunFolder

Outcome = TypeVar("Outcome")
PAGE, REPLIES = "judges.md", "judges.sqlite"


@flattened
def judge(order: Judging, voice: Quiet, config: ConfigFile = None) -> None:
    """Rate the answers of runs by several judges, and compare them with each other, the task's metric and people.

    The page has each run's mean with the standard deviation over repeats, before and after the method's own checks,
    and Pearson's and Spearman's correlations with p. The runs stay as they are. The same command resumes.

    For people, --page writes a page of blind pairs: two answers to a question, and nobody is told whose they are. It
    saves votes as a file. --votes rates the runs by them with TrueSkill; judges compare the same pairs.

    Example:  reground judge runs/agent runs/rag --judges openai/large,openai/small --people labels.jsonl
    """
    from reground.core.errors import ConfigurationError
    from reground.evaluation.results import find_runs

    console, err = common.consoles()
    votes = [path for path in order.folders if path.is_file()] if order.votes else []  # --votes one.json two.json
    found = find_runs([folder for folder in order.folders if folder not in votes])
    runs = _named(found)
    answers = _answers(order, runs)
    if order.page is not None or order.votes or order.pairs:
        return _compare(order, [*order.votes, *votes], list(runs), answers, (console, err), quiet=voice.quiet)
    if not order.judges:
        raise ConfigurationError("nobody judges: give --judges, or --page for people to compare answers")
    _rate(order, runs, answers, (console, err), quiet=voice.quiet)


def _rate(
    order: Judging,
    runs: dict[str, RunFolder],
    answers: Sequence[Answer],
    consoles: tuple[Console, Console],
    *,
    quiet: bool,
) -> None:
    """Have the judges rate each answer by itself."""
    from reground.evaluation.judging import agreement_table, by_metric, by_people, mean_table, rate
    from reground.evaluation.tasks.longform import Judge, read_labels

    console, err = consoles
    names = common.listed(order.judges)
    texts = len({answer.judged for answer in answers})
    if order.dry_run:
        return common.say(console, f"{len(answers)} answers; each of {len(names)} judges rates {texts} that differ")
    people = [] if order.people is None else [by_people(answers, read_labels(order.people))]

    async def one(model: LanguageModel, journal: Journal, on_item: Callable[[int], None]) -> Rater:
        return await rate(answers, Judge(model=model), journal, concurrency=order.concurrency, on_text=on_item)

    raters = _each_judge(order, one, f"{texts} answers", err, quiet=quiet)
    metrics = dict.fromkeys(run.config.primary for run in runs.values())
    raters += [rater for rater in (by_metric(metric, answers, runs) for metric in metrics) if rater.ratings]
    raters += people
    notes = [f"- {rater.name}: {rater.unread} ratings could not be read." for rater in raters if rater.unread]
    notes.append("- p: two-sided, from a permutation test. Repeats of a question are averaged first.")
    _print(order, PAGE, "Judges", [mean_table(raters, list(runs)), agreement_table(raters)], notes, console)


def _compare(
    order: Judging,
    files: Sequence[Path],
    runs: Sequence[str],
    answers: Sequence[Answer],
    consoles: tuple[Console, Console],
    *,
    quiet: bool,
) -> None:
    """Write the page of blind pairs, or count people's votes on them and let the judges vote."""
    from reground.core.paths import expanded
    from reground.evaluation.blind_pairs import Vote, model_votes, page, pairs_of, rating_tables, read_votes
    from reground.evaluation.results import write_text

    console, err = consoles
    pairs = pairs_of(answers)
    questions = len({(pair.question, pair.text) for pair in pairs})
    summary = f"{len(pairs)} pairs of {len(runs)} runs on {questions} questions"
    if order.dry_run:
        return common.say(console, f"{summary}; each judge is asked {2 * len(pairs)} times")
    if order.page is not None:
        write_text(expanded(order.page), page(pairs, order.seed))
        return common.say(console, f"{summary}; written: {order.page}")
    votes = read_votes(map(expanded, files), pairs)

    async def one(model: LanguageModel, journal: Journal, on_item: Callable[[int], None]) -> tuple[list[Vote], int]:
        return await model_votes(model, pairs, journal, concurrency=order.concurrency, on_pair=on_item)

    lacking = 0
    for cast, unread in _each_judge(order, one, f"{len(pairs)} pairs", err, quiet=quiet):
        votes += cast
        lacking += unread
    people = len({vote.judge for vote in votes if vote.person})
    notes = [f"- {summary}; {len(votes)} votes, of {people} people and {len(common.listed(order.judges))} models."]
    notes.append("- A tie and two bad answers are a draw, half a win. The interval is a bootstrap over questions.")
    notes += [f"- Models gave no readable verdict on {lacking} pairs."] if lacking else []
    _print(order, "pairs.md", "Blind pairs", rating_tables(runs, votes), notes, console)


def _each_judge(
    order: Judging,
    ask: Callable[[LanguageModel, Journal, Callable[[int], None]], Awaitable[Outcome]],
    items: str,
    err: Console,
    *,
    quiet: bool,
) -> list[Outcome]:
    """What each judge says. Their replies are recorded, so that the same command resumes."""
    from reground.app.cli.preparing import opened_model
    from reground.core.journal import SqliteJournal

    async def work(journal: Journal) -> list[Outcome]:
        results = []
        for name in common.listed(order.judges):

            def on_item(done: int, name: str = name) -> None:
                if not quiet and (done % 50 == 0 or items.startswith(f"{done} ")):
                    common.say(err, f"{name}: {done} of {items}")

            async with opened_model(name, order.model_options, err, quiet=quiet) as model:
                results.append(await ask(model, journal, on_item))
        return results

    out = _out(order)
    out.mkdir(parents=True, exist_ok=True)
    journal = SqliteJournal(out / REPLIES)
    try:
        return asyncio.run(work(journal))
    finally:
        journal.close()


def _out(order: Judging) -> Path:
    return order.out or next(folder for folder in order.folders if folder.is_dir())


def _print(
    order: Judging, name: str, title: str, tables: Sequence[Table], notes: Sequence[str], console: Console
) -> None:
    """Print the tables that say something, and write them to a page of this name."""
    from reground.evaluation.results import write_text

    tables = [table for table in tables if table.rows]
    for table in tables:
        console.print(table.terminal())
    common.say(console, "\n".join(notes))
    text = "\n\n".join([f"# {title}", *(table.markdown() for table in tables), "\n".join(notes)])
    write_text(_out(order) / name, f"{text}\n")
    common.say(console, f"written: {_out(order) / name}")


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
