"""`reground questions`: propose questions of several steps about one's own documents."""

from __future__ import annotations

import asyncio
import shlex
from functools import partial
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Json, Quiet
from reground.app.options_questions import Propose

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.evidence import Passage
    from reground.proposing.pairs import Pair
    from reground.proposing.propose import Proposed
    from reground.proposing.store import ProposalFile

_TRIES = 10
"""Pairs for each question, by default: small models write few that pass."""


@flattened
def questions(order: Propose, output: Json, voice: Quiet, config: ConfigFile = None) -> None:
    """Propose questions that need two of your passages, with answers, for a person to read and keep.

    A model writes a question from two passages that share a name or a title. It is kept if the model answers it from
    both passages but from neither alone. Read the file, delete what is no good, and give it to compare --questions. The
    same command resumes an interrupted run and pays for no call twice.

    Exit code 1: no question passed the checks.

    Example:  reground questions --corpus docs/ -n 50 --model openai/NAME --out questions.jsonl
    """
    from reground.app import catalogue
    from reground.core.paths import expanded
    from reground.proposing.store import open_proposals

    console, err = common.consoles()
    catalogue.check_price(order.model, order.model_options, order.budget)
    quiet = voice.quiet or output.as_json
    with open_proposals(expanded(order.out), fresh=order.fresh) as file:
        found = asyncio.run(_proposed(order, file, err, quiet=quiet))
    if output.as_json:
        from reground.app.cli.terminal import json_text, say

        say(json_text(_data(found, file), indent=2))
    else:
        _tell(console, found, file, order)
    if not found.kept:
        raise typer.Exit(1)


async def _proposed(order: Propose, file: ProposalFile, err: Console, *, quiet: bool) -> Proposed:
    from reground.app.cli.preparing import opened_model
    from reground.app.cli.questions_progress import ProposingProgress
    from reground.core.concurrency import in_daemon
    from reground.core.errors import DataError
    from reground.core.journal import SqliteJournal
    from reground.core.run import Run
    from reground.proposing.pairs import linked_pairs
    from reground.proposing.propose import propose

    passages = await _passages(order, err, quiet=quiet)
    pair = partial(linked_pairs, passages, most=order.tries or _TRIES * order.count, seed=order.seed)
    pairs: list[Pair] = await in_daemon(pair, name="pairs")
    if not pairs:
        raise DataError(
            f"no two of its {len(passages)} passages share a rare name or title: give more documents",
            path=order.corpus,
        )

    def on_pair(found: Proposed) -> None:
        if found.kept:
            file.write(found.kept)
        progress.on_pair(found)

    journal = SqliteJournal(file.journal)
    try:
        async with opened_model(order.model, order.model_options, err, quiet=quiet) as model:
            run = Run(run_id="questions", question_id="all", journal=journal, budget=order.budget, seed=order.seed)
            with ProposingProgress(err, order.count, len(pairs), shown=not quiet) as progress:
                return await propose(
                    pairs, model, run, count=order.count, concurrency=order.concurrency, on_pair=on_pair
                )
    finally:
        for notice in journal.notices:
            common.say(err, f"note: {notice}")
        journal.close()


async def _passages(order: Propose, err: Console, *, quiet: bool) -> list[Passage]:
    """The passages as `compare --corpus` finds them. Its index is made here, which names the files that are skipped."""
    from reground.app.asking import close
    from reground.app.cli.progress import AskProgress
    from reground.app.corpora import corpus_retriever, default_settings, is_index
    from reground.core.concurrency import in_daemon
    from reground.core.errors import ConfigurationError
    from reground.core.paths import expanded
    from reground.proposing.pairs import corpus_passages

    corpus, cut = expanded(order.corpus), default_settings()
    if is_index(corpus):
        raise ConfigurationError(f"{order.corpus} is an index: give the documents that it was made of")
    with AskProgress(err, shown=not quiet) as progress:
        await close(
            await corpus_retriever(corpus, progress.on_index, language=order.language, on_report=progress.on_report)
        )
    return await in_daemon(partial(corpus_passages, corpus, cut.chunk_tokens, cut.overlap), name="documents")


def _data(found: Proposed, file: ProposalFile) -> dict[str, object]:
    return {
        "out": str(file.path),
        "wanted": found.wanted,
        "kept": len(found.kept),
        "tried": found.tried,
        "dropped": dict(found.dropped.most_common()),
        "stopped": found.stopped,
        "usage": found.usage.model_dump(mode="json"),
        "questions": [each.model_dump(mode="json") for each in found.kept],
    }


def _tell(console: Console, found: Proposed, file: ProposalFile, order: Propose) -> None:
    """Show the first questions, what was dropped and why, and what to do next."""
    for one in found.kept[:3]:
        common.say(console, f"{one.id}  {one.question}\n      {one.answer}  ({', '.join(one.passages)})")
    if len(found.kept) > 3:
        common.say(console, f"... and {len(found.kept) - 3} more")
    cost = f"{common.human_tokens(found.usage.tokens)} tokens" + (
        "" if found.usage.usd is None else f", {common.human_usd(found.usage.usd)}"
    )
    common.say(console, f"\n{len(found.kept)} of {found.wanted} questions from {found.tried} pairs of passages; {cost}")
    if found.dropped:
        common.say(console, "dropped: " + "; ".join(f"{n} {why}" for why, n in found.dropped.most_common()))
    if found.stopped is not None:
        common.say(console, f"the {found.stopped} budget ended it: the same command with a larger one continues")
    elif len(found.kept) < found.wanted:
        common.say(console, "no more pairs to try: --tries, a larger model or more documents give more questions")
    if found.kept:
        common.say(
            console,
            f"Read {file.path}, one question a line: correct what is wrong, delete the lines that are no good. Then:\n"
            f"  {shlex.join(_comparing(file, order))}",
        )


def _comparing(file: ProposalFile, order: Propose) -> list[str]:
    """The command that measures on the questions, with the same documents and the same model on the same server."""
    words = ["reground", "compare", "--questions", str(file.path), "--corpus", str(order.corpus)]
    words += ["--model", str(order.model)]
    given = {"--base-url": order.model_options.base_url, "--language": order.language}
    return words + [word for option, value in given.items() if value is not None for word in (option, value)]


def register(cli: typer.Typer) -> None:
    """Add the command of this file."""
    cli.command()(questions)
