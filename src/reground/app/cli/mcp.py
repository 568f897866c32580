"""`reground mcp`: documents and methods as tools of other programs' models."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import typer

from reground.app.cli.console import note, print_json
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import opened
from reground.app.documents import is_page
from reground.app.options import Mcp
from reground.app.serving.engine import open_engine, setup_of
from reground.app.serving.tools import Tools
from reground.app.session import Session
from reground.core.errors import MissingExtra
from reground.core.files import expanded


@flattened(
    "corpus", "where", "web", "method", "model", "settings", "budget__tokens", "http", "port", "as_json", "quiet"
)
def mcp(
    context: typer.Context, options: Mcp, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None
) -> None:
    """Offer ask, check, retrieve and fetch as tools by the Model Context Protocol, to editors, assistants and agents.

    The client starts the command and speaks with it over standard input and output; logs go to standard error. --http
    serves streamable HTTP to this machine alone. --json prints the lines for a client's settings and serves nothing.

    Example:  reground mcp --corpus docs/ --method rag --model openai/gpt-4o-mini
    """
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtra("reground mcp", "mcp")
    if as_json:
        return print_json(_client(context, options), indent=2)
    return asyncio.run(_serve(options, quiet=quiet))


def _client(context: typer.Context, options: Mcp) -> dict[str, Any]:
    """What a client has to start, with whole paths, since it starts it somewhere else."""
    program = Path(sys.argv[0]).absolute()
    command = [str(program)] if program.name == "reground" else [sys.executable, "-m", "reground"]
    args = ["mcp"]
    arguments, _, parameters = context.command.make_parser(context).parse_args(context.obj[1:])
    for parameter in dict.fromkeys(each for each in parameters if each.name != "as_json"):
        values = arguments[parameter.name]
        for value in values if parameter.multiple else [values]:
            name, equals, place = str(value).rpartition("=")
            is_place = parameter.name in ("corpus", "config") and not is_page(place)
            whole = f"{name}{equals}{expanded(place).absolute()}" if is_place else str(value)
            args += [parameter.opts[0]] if value is True else [parameter.opts[0], whole]
    name = next(iter(setup_of(options).sources), "reground")
    return {"mcpServers": {name: {"command": command[0], "args": [*command[1:], *args]}}}


async def _serve(options: Mcp, *, quiet: bool) -> None:
    """Serve at once, and open the documents beside it: clients wait a few seconds only for the first reply."""
    from reground.app.serving.mcp import over_http, over_stdio, server

    setup = setup_of(options)
    async with AsyncExitStack() as stack:

        async def open_tools() -> Tools:
            session = await stack.enter_async_context(opened(partial(Session.open, setup), quiet=quiet))
            return Tools(await stack.enter_async_context(open_engine(session, options)), options.result_tokens)

        opening = asyncio.create_task(open_tools())
        serving = server(lambda: asyncio.shield(opening), [*setup.offers], [*setup.sources])

        def on_ready(address: str) -> None:
            note(f"serving {', '.join(setup.offers)}; Ctrl-C ends it\n{address}")

        work = over_http(serving, options.port, on_ready) if options.http else over_stdio(serving)
        working = asyncio.create_task(work)
        try:
            await asyncio.wait([opening, working], return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()  # raises what kept it from being opened
            await working
        finally:
            for task in (working, opening):
                task.cancel()
            await asyncio.gather(working, opening, return_exceptions=True)
