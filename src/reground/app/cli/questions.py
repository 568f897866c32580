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
from reground.app.options_evaluation import Propose

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.evidence import Passage
    from reground.proposing import ProposalFile, Proposed


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
    from reground.app.cli.terminal import json_text, say
    from reground.core.paths import expanded
    from reground.proposing import open_proposals

    console, err = common.consoles()
    catalogue.check_price(order.model, order.model_options, order.budget)
    with open_proposals(expanded(order.out), fresh=order.fresh) as file:
        proposed = asyncio.run(_proposed(order, file, err, quiet=voice.quiet or output.as_json))
    if output.as_json:
        say(json_text({"out": str(file.path), **proposed.to_dict()}, indent=2))
    else:
        common.say(console, "\n".join(_lines(proposed, order)))
    if not proposed.kept:
        raise typer.Exit(1)


def _cost(proposed: Proposed) -> str:
    usage = proposed.usage
    return f"{common.human_tokens(usage.tokens)} tokens" + (
        "" if usage.usd is None else f", {common.human_usd(usage.usd)}"
    )


async def _proposed(order: Propose, file: ProposalFile, err: Console, *, quiet: bool) -> Proposed:
    from reground.app.cli.preparing import opened_model
    from reground.app.cli.progress import AskProgress
    from reground.core.concurrency import in_daemon
    from reground.core.errors import DataError
    from reground.core.journal import SqliteJournal
    from reground.core.run import Run
    from reground.proposing import linked_pairs, propose

    passages = await _passages(order, err, quiet=quiet)
    pairing = partial(linked_pairs, passages, most=order.tries or 10 * order.count, seed=order.seed)
    pairs = await in_daemon(pairing, name="pairs")
    if not pairs:
        what = f"no two of its {len(passages)} passages share a rare name or title: give more documents"
        raise DataError(what, path=order.corpus)

    def on_pair(proposed: Proposed) -> None:
        if proposed.kept:
            file.write(proposed.kept)
        kept, tried = len(proposed.kept), proposed.tried
        if err.is_terminal or kept == order.count or tried % 10 == 0:
            progress.show(f"{kept}/{order.count} questions, {tried}/{len(pairs)} pairs tried, {_cost(proposed)}")

    journal = SqliteJournal(file.journal)
    try:
        async with opened_model(order.model, order.model_options, err, quiet=quiet) as model:
            run = Run(run_id="questions", question_id="all", journal=journal, budget=order.budget, seed=order.seed)
            with AskProgress(err, shown=not quiet) as progress:
                return await propose(
                    pairs, model, run, count=order.count, concurrency=order.concurrency, on_pair=on_pair
                )
    finally:
        for notice in journal.notices:
            common.say(err, f"note: {notice}")
        journal.close()


async def _passages(order: Propose, err: Console, *, quiet: bool) -> list[Passage]:
    """The passages as `compare --corpus` finds them. Its index is made here, which names the files that are skipped."""
    from reground.app.cli.progress import AskProgress
    from reground.app.documents import close, corpus_retriever, default_settings, is_index
    from reground.core.concurrency import in_daemon
    from reground.core.errors import ConfigurationError
    from reground.core.paths import expanded
    from reground.proposing import corpus_passages

    corpus, cut = expanded(order.corpus), default_settings()
    if is_index(corpus):
        raise ConfigurationError(f"{order.corpus} is an index: give the documents that it was made of")
    with AskProgress(err, shown=not quiet) as progress:
        report = progress.on_report
        await close(await corpus_retriever(corpus, progress.on_index, language=order.language, on_report=report))
    return await in_daemon(partial(corpus_passages, corpus, cut.chunk_tokens, cut.overlap), name="documents")


def _lines(proposed: Proposed, order: Propose) -> list[str]:
    """The first questions, what was dropped and why, and what to do next."""
    kept = proposed.kept
    lines = [f"{one.id}  {one.question}\n      {one.answer}  ({', '.join(one.passages)})" for one in kept[:3]]
    lines += [f"... and {len(kept) - 3} more"] if len(kept) > 3 else []
    pairs = f"{proposed.tried} pairs of passages"
    lines.append(f"\n{len(kept)} of {proposed.wanted} questions from {pairs}; {_cost(proposed)}")
    if proposed.dropped:
        lines.append("dropped: " + "; ".join(f"{n} {why}" for why, n in proposed.dropped.most_common()))
    if proposed.stopped is not None:
        lines.append(f"the {proposed.stopped} budget ended it: the same command with a larger one continues")
    elif len(kept) < proposed.wanted:
        lines.append("no more pairs to try: --tries, a larger model or more documents give more questions")
    if kept:
        lines.append(
            f"Read {order.out}, one question a line: correct what is wrong, delete the lines that are no good."
        )
        lines.append(f"Then:\n  {shlex.join(_comparing(order))}")
    return lines


def _comparing(order: Propose) -> list[str]:
    """The command that measures on the questions, with the same documents and the same model on the same server."""
    words = ["reground", "compare", "--questions", str(order.out), "--corpus", str(order.corpus)]
    words += ["--model", str(order.model)]
    given = {"--base-url": order.model_options.base_url, "--language": order.language}
    return words + [word for option, value in given.items() if value is not None for word in (option, value)]
