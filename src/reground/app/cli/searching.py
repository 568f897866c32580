"""`reground retrieve` and `freeze`: search without a method, and keep what was found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Json, Quiet
from reground.app.options_web import Retrieve, Searched

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.evidence import Passage, Retriever


@flattened
def retrieve(order: Retrieve, output: Json, voice: Quiet, config: ConfigFile = None) -> None:
    """Print the passages that a query finds in documents or on the web, with their scores, or a TREC run of many.

    Example:  reground retrieve "Charles Bridge" --corpus docs/   ·   reground retrieve --queries q.tsv -c docs/ -o run
    """
    from reground.core.errors import ConfigurationError

    if (order.query is None) == (order.queries is None):
        raise ConfigurationError("give a query, or a file of them with --queries")
    console, err = common.consoles()
    queries = list(_queries(order.queries)) if order.query is None else [("1", order.query)]
    quiet = voice.quiet or (output.as_json and order.query is not None)
    found = asyncio.run(_found(queries, order, err, quiet=quiet))
    if order.out is not None:
        _write_run(found, order.out)
    if order.query is not None and output.as_json:
        _print_json(found[0][2])
    elif output.as_json:
        _print_lines(found)
    elif order.query is not None:
        _show(console, found[0][2])
    elif order.out is None:
        _print_run(found)


@asynccontextmanager
async def opened_search(
    order: Searched, err: Console, *, quiet: bool, usual: str | None = None
) -> AsyncIterator[Retriever]:
    """What the options say is to be searched. usual: as in `Source`. Raises ConfigurationError where they
    say nothing."""
    from reground.app.cli.progress import AskProgress
    from reground.app.documents import Source, check_reranker, names_other, open_source
    from reground.core.errors import ConfigurationError

    if not names_other(order) and order.corpus is None:
        raise ConfigurationError("say what to search: --corpus DIR or --web ENGINE")
    check_reranker(order)
    async with AsyncExitStack() as opened:
        with AskProgress(err, shown=not quiet) as progress:
            retriever = await open_source(
                Source(order.corpus, usual=usual),
                order,
                opened,
                on_index=progress.on_index,
                on_report=progress.on_report,
            )
        yield retriever


Found = list[tuple[str, str, "list[Passage]"]]
"""The id, the query and the passages of each."""


async def _found(queries: list[tuple[str, str]], order: Retrieve, err: Console, *, quiet: bool) -> Found:
    from reground.app.cli.display import unread
    from reground.app.documents import ANSWERING

    room = asyncio.Semaphore(order.concurrency)
    async with opened_search(order, err, quiet=quiet, usual=ANSWERING) as retriever:

        async def search(query: str) -> list[Passage]:
            async with room:
                found = await retriever.retrieve(query, k=order.k)
            for skipped in () if quiet else getattr(found, "skipped", ()):
                err.print(unread(skipped), soft_wrap=True)
            return list(found)[: order.k]

        passages = await asyncio.gather(*(search(query) for _, query in queries))
    return [(id_, query, each) for (id_, query), each in zip(queries, passages, strict=True)]


def _queries(path: Path | None) -> Iterator[tuple[str, str]]:
    """The ids and queries of a file. Raises DataError naming the line."""
    from reground.core.errors import DataError
    from reground.core.paths import expanded

    assert path is not None
    try:
        # not splitlines(), which also splits at characters that may stand in a query, such as U+2028
        lines = expanded(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeError) as error:
        raise DataError(f"cannot be read: {error}", path=path) from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line) if line.lstrip().startswith("{") else None
            id_, query = (str(data["id"]), str(data["query"])) if data else line.split("\t", 1)
        except (ValueError, KeyError):
            why = "not an id, a tab and a query, nor JSON with id and query"
            raise DataError(why, path=path, line=number) from None
        yield id_.strip(), query.strip()


def _show(console: Console, passages: list[Passage]) -> None:
    from reground.app.cli.display import as_written, plain

    for number, passage in enumerate(passages, start=1):
        at = f"  {passage.url or passage.id}"
        title, score = plain(f"[{number}] {passage.title}", "bold"), plain(f"  {passage.score:.3f}")
        console.print(title, plain(at, "dim"), score, soft_wrap=True)
        as_written(console, plain(passage.text))
        console.print()
    if not passages:
        console.print("nothing was found")


def _print_json(passages: list[Passage]) -> None:
    from reground.app.cli.terminal import json_text, say

    say(json_text([passage.model_dump(mode="json") for passage in passages], indent=2))


def _print_lines(found: Found) -> None:
    from reground.app.cli.terminal import json_text, say

    for id_, query, passages in found:
        say(json_text({"id": id_, "query": query, "passages": [p.model_dump(mode="json") for p in passages]}))


def _run_of(found: Found) -> dict[str, dict[str, float]]:
    return {id_: {p.id: len(each) - rank + 0.0 for rank, p in enumerate(each)} for id_, _, each in found}


def _write_run(found: Found, out: Path) -> None:
    from reground.core.paths import expanded
    from reground.evaluation.metrics.ranking import write_run

    write_run(expanded(out), _run_of(found))


def _print_run(found: Found) -> None:
    from reground.app.cli.terminal import say
    from reground.evaluation.metrics.ranking import run_lines

    for line in run_lines(Path("-"), _run_of(found), "reground"):
        say(line.rstrip("\n"))


def freeze(
    place: Annotated[Path, typer.Argument(help="A run's folder, or a file of trajectories.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of the snapshot.")] = Path("web.jsonl"),
    all_texts: Annotated[
        bool,
        typer.Option("--all-texts", help="Keep snippets also of engines whose terms forbid it, for yourself alone."),
    ] = False,
) -> None:
    """Keep what a run found on the web, so that it can be repeated when the web has moved on.

    The snapshot holds every search, its date, and a hash of each text. Snippets of engines whose terms forbid to keep
    them are left out; --web frozen:FILE then fetches nothing and finds the same.

    Example:  reground freeze runs/rat --out rat-web.jsonl
    """
    from datetime import UTC, datetime

    from reground.app.cli.show import trajectories
    from reground.core.errors import DataError
    from reground.core.paths import expanded
    from reground.web.frozen import searches, write

    found = list(searches(trajectories(expanded(place)), all_texts=all_texts))
    if not found:
        raise DataError("no search of the web is in it; run a method with --web first", path=place)
    count = write(expanded(out), found, made=datetime.now(UTC).isoformat(timespec="seconds"))
    kept = sum(bool(passage.text) for each in found for passage in each.passages)
    every = sum(len(each.passages) for each in found)
    console, _ = common.consoles()
    common.say(console, f"{count} searches with {kept} of {every} texts in {out}: --web frozen:{out}")
