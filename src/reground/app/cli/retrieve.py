"""`reground retrieve`: search without a method."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from reground.app.cli.console import consoles, print_json
from reground.app.cli.display import as_written, plain, unread
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.documents import Source, check_searching, names_other, open_source
from reground.app.options import Retrieve
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage


@flattened("query", "corpus", "where", "web", "k", "retrieval", "rerank", "as_json", "quiet")
def retrieve(options: Retrieve, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Print the passages that a query finds in documents or on the web, with their scores.

    Example:  reground retrieve "Charles Bridge" --corpus docs/
    """
    if not names_other(options) and options.corpus is None:
        raise ConfigurationError("say what to search: --corpus DIR or --web ENGINE")
    if not options.query.strip():
        raise ConfigurationError("the query is empty")
    check_searching(options)
    passages = asyncio.run(_search(options, quiet=quiet or as_json))
    if as_json:
        return print_json([passage.model_dump(mode="json") for passage in passages], indent=2)
    console, _ = consoles()
    for number, passage in enumerate(passages, start=1):
        title, score = plain(f"[{number}] {passage.title}", "bold"), plain(f"  {passage.score:.3f}")
        console.print(title, plain(f"  {passage.url or passage.id}", "dim"), score, soft_wrap=True)
        as_written(console, plain(passage.text))
        console.print()
    if not passages:
        console.print("nothing was found")
    return None


async def _search(options: Retrieve, *, quiet: bool) -> list[Passage]:
    async with AsyncExitStack() as opened:
        with Progress(visible=not quiet) as progress:
            on_index, on_report = progress.on_index, progress.on_report
            source = Source(options.corpus)
            retriever = await open_source(source, options, opened, on_index=on_index, on_report=on_report)
        passages = await retriever.retrieve(options.query, k=options.k)
    for skipped in () if quiet else getattr(passages, "skipped", ()):
        consoles()[1].print(unread(skipped), soft_wrap=True)
    return list(passages)[: options.k]
