"""`reground questions`: propose questions of several steps about one's own documents."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

import typer

from reground.app import catalogue
from reground.app.cli.console import human_tokens, human_usd, listed, note, print_json, say
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress, opened_model
from reground.app.documents import close, corpus_retriever
from reground.app.options import Propose
from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError, DataError
from reground.core.files import expanded
from reground.core.journal import SqliteJournal
from reground.core.run import Run
from reground.proposing import Kind, ProposalFile, Proposed, candidates, corpus_passages, open_proposals, propose
from reground.retrieval.settings import preset
from reground.retrieval.storage import holds_index


@flattened(
    "corpus", "count", "kinds", "model", "out", "language", "seed", "budget__tokens", "as_json", "quiet", "fresh"
)
def questions(options: Propose, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Propose questions about your documents, with answers, for a person to read and keep.

    A model writes a question from two passages that share a name or a title. It is kept if the model answers it from
    both passages but from neither alone. --kinds one,two,none also gives questions that one passage answers, and that
    none does. Read the file, delete what is no good, and give it to compare --questions. The same command resumes an
    interrupted run and pays for no call twice.

    Exit code 1: no question passed the checks.

    Example:  reground questions --corpus docs/ -n 50 --model openai/NAME --out questions.jsonl
    """
    catalogue.check_budget(options.model, options.model_options, options.budget)
    with open_proposals(expanded(options.out), fresh=options.fresh) as file:
        proposed = asyncio.run(_propose(options, file, quiet=quiet or as_json))
    if as_json:
        counts = {"wanted": options.count, "kept": len(proposed.proposals), "tried": proposed.tries}
        dropped, usage = dict(proposed.dropped.most_common()), proposed.usage.model_dump(mode="json")
        about = {"dropped": dropped, "stopped": proposed.stopped, "usage": usage}
        rows = [each.model_dump(mode="json") for each in proposed.proposals]
        print_json({"out": str(file.path), **counts, **about, "questions": rows}, indent=2)
    else:
        say("\n".join(_lines(proposed, options)))
    if not proposed.proposals:
        raise typer.Exit(1)


async def _propose(options: Propose, file: ProposalFile, *, quiet: bool) -> Proposed:
    corpus, settings = expanded(options.corpus), preset("bm25").settings
    kinds: Any = list(dict.fromkeys(listed(options.kinds)))
    if not kinds or not set(kinds) <= {*get_args(Kind)}:
        raise ConfigurationError(f"--kinds are {', '.join(get_args(Kind))}, not {options.kinds!r}")
    if holds_index(corpus):
        raise ConfigurationError(f"{options.corpus} is an index: give the documents that it was made of")
    with Progress(visible=not quiet) as progress:  # the index of `compare --corpus`: it names skipped files
        language, on_report, globs = options.language, progress.on_report, options.globs
        retriever = await corpus_retriever(corpus, progress.on_index, language, None, on_report, globs=globs)
        load = partial(corpus_passages, corpus, settings.chunk_tokens, settings.overlap, globs)
        passages = await in_daemon(load, name="documents")
    most = options.tries or 10 * options.count
    pairs = await in_daemon(partial(candidates, passages, kinds, most=most, seed=options.seed), name="pairs")
    if not pairs:
        what = f"no two of its {len(passages)} passages share a rare name or title: give more documents"
        raise DataError(what, path=options.corpus)
    journal = SqliteJournal(file.journal)
    try:
        async with opened_model(options.model, options.model_options, quiet=quiet) as model:
            run = Run(run_id="questions", question_id="all", journal=journal, budget=options.budget, seed=options.seed)
            with Progress(visible=not quiet) as progress:

                def on_pair(proposed: Proposed) -> None:
                    count = len(proposed.proposals)
                    if count:
                        file.write(proposed.proposals)
                    counts = f"{count}/{options.count} questions, {proposed.tries}/{len(pairs)} pairs tried"
                    progress.show(f"{counts}, {_cost(proposed)}", now=count == options.count)

                work = partial(propose, pairs, model, run, count=options.count, retriever=retriever)
                return await work(concurrency=options.concurrency, on_pair=on_pair)
    finally:
        await close(retriever)
        for notice in journal.notices:
            note(f"note: {notice}")
        journal.close()


def _cost(proposed: Proposed) -> str:
    usd = proposed.usage.usd
    return f"{human_tokens(proposed.usage.tokens)} tokens" + ("" if usd is None else f", {human_usd(usd)}")


def _lines(proposed: Proposed, options: Propose) -> Iterator[str]:
    """The first questions, what was dropped and why, and what to do next."""
    rows = proposed.proposals
    for one in rows[:3]:
        yield f"{one.id}  {one.question}\n      {one.answer}  ({', '.join(one.passages)})"
    if len(rows) > 3:
        yield f"... and {len(rows) - 3} more"
    yield f"\n{len(rows)} of {options.count} questions from {proposed.tries} pairs of passages; {_cost(proposed)}"
    if proposed.dropped:
        yield "dropped: " + "; ".join(f"{count} {why}" for why, count in proposed.dropped.most_common())
    if proposed.stopped is not None:
        yield f"the {proposed.stopped} budget ended it: the same command with a larger one continues"
    elif len(rows) < options.count:
        yield "no more pairs to try: more tries, a larger model or more documents give more questions"
    if rows:
        yield f"Read {options.out}, one question a line: correct what is wrong, delete the lines that are no good."
        words = ["reground", "compare", "--questions", str(options.out), "--corpus", str(options.corpus)]
        words += ["--model", options.model]
        for name, value in (("--base-url", options.model_options.base_url), ("--language", options.language)):
            words += [] if value is None else [name, value]
        yield f"Then:\n  {shlex.join(words)}"
