"""`reground questions`: propose questions of several steps about one's own documents."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, get_args

import typer

from reground.app.cli.console import human_tokens, human_usd, listed, print_json, say
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress, opened
from reground.app.documents import Source
from reground.app.options import Propose, Searching
from reground.app.session import Session, Setup
from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError, DataError
from reground.core.files import expanded
from reground.core.journal import SqliteJournal
from reground.core.run import Run
from reground.proposing import Kind, Proposed, Write, candidates, open_proposals, propose


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
    kinds = list(dict.fromkeys(listed(options.kinds)))
    if not kinds or not set(kinds) <= {*get_args(Kind)}:
        raise ConfigurationError(f"--kinds are {', '.join(get_args(Kind))}, not {options.kinds!r}")
    setup = Setup(
        search=Searching(language=options.language, include=options.include, exclude=options.exclude),
        methods=(),
        models={options.model: options.model},
        sources={"docs": Source(options.corpus, usual=None)},
        model_options=options.model_options,
        budget=options.budget,
    )
    with open_proposals(out := expanded(options.out), fresh=options.fresh) as (journal, write):
        proposed = asyncio.run(_propose(options, setup, kinds, journal, write, quiet=quiet or as_json))
    if as_json:
        about = {"out": str(out), "wanted": options.count, "kept": len(proposed.questions)}
        print_json(about | proposed.model_dump(mode="json"), indent=2)
    else:
        say("\n".join(_lines(proposed, options)))
    if not proposed.questions:
        raise typer.Exit(1)


async def _propose(
    options: Propose, setup: Setup, kinds: list[Any], calls: Path, write: Write, *, quiet: bool
) -> Proposed:
    """What has come of it. The passages are those of the index that `compare --corpus` searches."""
    async with opened(partial(Session.open, setup), quiet=quiet) as session:
        retriever: Any = session.retrievers["docs"]
        passages = await in_daemon(retriever.passages, name="documents")
        most = options.tries or 10 * options.count
        pairs = await in_daemon(partial(candidates, passages, kinds, most=most, seed=options.seed), name="pairs")
        if not pairs:
            what = f"no two of its {len(passages)} passages share a rare name or title: give more documents"
            raise DataError(what, path=options.corpus)
        with closing(SqliteJournal(calls)) as journal, Progress(visible=not quiet) as progress:
            run = Run(run_id="questions", question_id="all", journal=journal, budget=options.budget, seed=options.seed)
            work = partial(propose, pairs, session.models[options.model], run, retriever=retriever)
            proposed = Proposed()
            async for proposed in work(count=options.count, concurrency=options.concurrency):
                if (count := len(proposed.questions)) > 0:
                    write(proposed.questions)
                counts = f"{count}/{options.count} questions, {proposed.tried}/{len(pairs)} pairs tried"
                progress.show(f"{counts}, {_cost(proposed)}", now=count == options.count)
            return proposed


def _cost(proposed: Proposed) -> str:
    usd = proposed.usage.usd
    return f"{human_tokens(proposed.usage.tokens)} tokens" + ("" if usd is None else f", {human_usd(usd)}")


def _lines(proposed: Proposed, options: Propose) -> Iterator[str]:
    """The first questions, what was dropped and why, and what to do next."""
    rows = proposed.questions
    for one in rows[:3]:
        yield f"{one.id}  {one.question}\n      {one.answer}  ({', '.join(one.passages)})"
    yield f"\n{len(rows)} of {options.count} questions from {proposed.tried} pairs of passages; {_cost(proposed)}"
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
