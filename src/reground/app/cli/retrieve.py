"""`reground retrieve`: search without a method."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from reground.app.cli.console import consoles, json_text, print_json, say
from reground.app.cli.display import as_written, plain, unread
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.documents import Source, check_reranker, names_other, open_source
from reground.app.options import Retrieve
from reground.core.errors import ConfigurationError, DataError
from reground.core.evidence import Passage
from reground.core.files import expanded
from reground.evaluation.metrics.ranking import run_lines, write_run

Results = list[tuple[str, str, list[Passage]]]
"""The id, the query and the passages of each."""


@flattened("query", "corpus", "web", "k", "retrieval", "rerank", "queries", "out", "as_json", "quiet")
def retrieve(options: Retrieve, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Print the passages that a query finds in documents or on the web, with their scores, or a TREC run of many.

    Example:  reground retrieve "Charles Bridge" --corpus docs/   ·   reground retrieve --queries q.tsv -c docs/ -o run
    """
    if (options.query is None) == (options.queries is None):
        raise ConfigurationError("give a query, or a file of them with --queries")
    if not names_other(options) and options.corpus is None:
        raise ConfigurationError("say what to search: --corpus DIR or --web ENGINE")
    check_reranker(options)
    queries = list(_queries(options.queries)) if options.queries is not None else [("1", str(options.query))]
    quiet = quiet or (as_json and options.query is not None)
    results = asyncio.run(_search(queries, options, quiet=quiet))
    run = {id_: {p.id: len(each) - rank + 0.0 for rank, p in enumerate(each)} for id_, _, each in results}
    if options.out is not None:
        write_run(expanded(options.out), run)
    if options.query is not None:
        passages = results[0][2]
        if as_json:
            print_json([passage.model_dump(mode="json") for passage in passages], indent=2)
        else:
            _show(passages)
    elif as_json:
        for id_, query, passages in results:
            say(json_text({"id": id_, "query": query, "passages": [p.model_dump(mode="json") for p in passages]}))
    elif options.out is None:
        for line in run_lines(Path("-"), run, "reground"):
            say(line.rstrip("\n"))


async def _search(queries: list[tuple[str, str]], options: Retrieve, *, quiet: bool) -> Results:
    room = asyncio.Semaphore(options.concurrency)
    async with AsyncExitStack() as opened:
        with Progress(shown=not quiet) as progress:
            on_index, on_report = progress.on_index, progress.on_report
            retriever = await open_source(
                Source(options.corpus), options, opened, on_index=on_index, on_report=on_report
            )

        async def search(query: str) -> list[Passage]:
            async with room:
                passages = await retriever.retrieve(query, k=options.k)
            for skipped in () if quiet else getattr(passages, "skipped", ()):
                consoles()[1].print(unread(skipped), soft_wrap=True)
            return list(passages)[: options.k]

        passages = await asyncio.gather(*(search(query) for _, query in queries))
    return [(id_, query, each) for (id_, query), each in zip(queries, passages, strict=True)]


def _queries(path: Path) -> Iterator[tuple[str, str]]:
    """The ids and queries of a file. Raises DataError naming the line."""
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


def _show(passages: list[Passage]) -> None:
    console, _ = consoles()
    for number, passage in enumerate(passages, start=1):
        title, score = plain(f"[{number}] {passage.title}", "bold"), plain(f"  {passage.score:.3f}")
        console.print(title, plain(f"  {passage.url or passage.id}", "dim"), score, soft_wrap=True)
        as_written(console, plain(passage.text))
        console.print()
    if not passages:
        console.print("nothing was found")
