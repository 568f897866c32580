"""`reground arena`: people and models compare the answers of finished runs, without knowing whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Json, Quiet
from reground.app.options_arena import Arena

if TYPE_CHECKING:
    from rich.console import Console

    from reground.arena.model_judge import Judged
    from reground.arena.pairs import Contest, Read
    from reground.arena.votes import Votes
    from reground.evaluation.results import RunFolder
    from reground.evaluation.task import Task

_VOTES = "arena.sqlite"


@flattened
def arena(order: Arena, output: Json, voice: Quiet, config: ConfigFile = None) -> None:
    """Compare the answers of methods two at a time without knowing whose they are, and rate the methods by TrueSkill.

    Opens a page for people, any number of them at once. Each vote is kept at once; the same command goes on with the
    same file. --judge lets a model vote as well, and --results prints the ratings, win rates and the agreement of the
    judges.

    Example:  reground arena runs/rat runs/direct   ·   reground arena runs/rat runs/direct --results
    """
    from reground.arena.pairs import contest
    from reground.arena.votes import Votes
    from reground.core.paths import expanded
    from reground.evaluation.results import find_runs

    console, err = common.consoles()
    runs = find_runs([expanded(folder) for folder in order.folders])
    found = contest(runs, limit=order.limit, seed=order.seed, read=_reading(order, runs, err))
    if order.dry_run:
        methods, calls = len(found.methods), 2 * len(found.pairs)
        text = f"{len(found.pairs)} pairs of {methods} methods on {found.questions} questions"
        return common.say(console, f"{text}; a model is asked {calls} times")
    path = _votes_file(order)
    printed = order.results or output.as_json or order.csv is not None
    votes = Votes(path, fresh=not printed or order.judge is not None)
    try:
        if order.judge is not None:
            asyncio.run(_judged(order, order.judge, found, votes, err, quiet=voice.quiet or output.as_json))
        if printed or order.judge is not None:
            return _print(order, found, votes, console, as_json=output.as_json)
        asyncio.run(_serve(order, found, votes, err))
    finally:
        votes.close()


def _reading(order: Arena, runs: Sequence[RunFolder], err: Console) -> Read:
    """How the tasks have their answers read. A task that cannot be loaded here leaves them as they were written."""
    from reground.core.errors import RegroundError
    from reground.evaluation.task import as_read
    from reground.evaluation.tasks import load_tasks

    tasks: dict[str, Task] = {}
    for name in {run.config.task for run in runs}:
        try:
            tasks |= load_tasks([name], order.data, own=common.listed(order.tasks))
        except RegroundError as error:
            common.say(err, f"note: answers to {name} are shown as they were written: {error}")
    return lambda run, text: as_read(tasks[run.config.task], text) if run.config.task in tasks else text


def _votes_file(order: Arena) -> Path:
    """The file that is asked for; else beside the first run, or in the state folder where that cannot be written."""
    import os

    from reground.core.paths import expanded, runs_dir

    if order.votes is not None:
        return expanded(order.votes)
    first = expanded(order.folders[0]).resolve()
    beside = first.parent if (first / "config.json").is_file() else first
    usable = (beside / _VOTES).is_file() or os.access(beside, os.W_OK)
    return (beside if usable else runs_dir()) / _VOTES


async def _judged(order: Arena, name: str, found: Contest, votes: Votes, err: Console, *, quiet: bool) -> None:
    from reground.app.cli.preparing import opened_model
    from reground.arena.model_judge import judge
    from reground.core.journal import SqliteJournal

    pairs = list(found.pairs.values())

    def told(judged: Judged) -> None:
        if not quiet and judged.pairs % max(1, len(pairs) // 20) == 0:
            common.say(err, f"{name}: {judged.pairs} of {len(pairs)} pairs")

    journal = SqliteJournal(votes.path.with_suffix(".replies.sqlite"))
    try:
        async with opened_model(name, order.model_options, err, quiet=quiet) as model:
            judged = await judge(model, pairs, votes, journal, concurrency=order.concurrency, on_pair=told)
    finally:
        for notice in journal.notices:
            common.say(err, f"note: {notice}")
        journal.close()
    common.say(
        err,
        f"{name} judged {judged.pairs} pairs; {judged.turned} verdicts changed with the order and are ties, "
        f"{judged.unread} could not be read and {judged.refused} were refused, which are no votes",
    )


def _print(order: Arena, found: Contest, votes: Votes, console: Console, *, as_json: bool) -> None:
    from reground.app.cli.terminal import json_text, say
    from reground.arena.results import as_csv, as_data, notes, results, tables
    from reground.core.paths import expanded
    from reground.evaluation.results import write_text

    counted = results(found, votes.all(), order.judges)
    if order.csv is not None:
        write_text(expanded(order.csv), as_csv(counted) + "\n")
    if as_json:
        return say(json_text(as_data(counted), indent=2))
    for table in tables(counted):
        console.print(table.terminal())
    common.say(console, "\n".join(f"- {note}" for note in notes(counted)))
    common.say(console, f"votes: {votes.path}")


async def _serve(order: Arena, found: Contest, votes: Votes, err: Console) -> None:
    from reground.app.cli.local_pages import serve_until_interrupted
    from reground.arena.booth import Booth
    from reground.arena.server import application

    def ready(url: str) -> None:
        common.say(err, f"{len(found.pairs)} pairs on {found.questions} questions; votes go to {votes.path}")
        common.say(err, f"the arena is open at {url}/; Ctrl-C ends it, and --results prints what was voted")

    app = application(Booth(found, votes), host=order.host)
    await serve_until_interrupted(app, order.host, order.port, ready, opens=order.open)


def register(cli: typer.Typer) -> None:
    """Add the command of this file."""
    cli.command()(arena)
