"""`reground mcp`: documents and methods as tools of other programs' models."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_talk import Mcp

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.serving.tools import Tools
    from reground.app.session import Setup


@flattened
def mcp(order: Mcp, voice: Quiet, config: ConfigFile = None) -> None:
    """Offer ask, retrieve and fetch as tools by the Model Context Protocol, to editors, assistants and agents.

    The client starts the command and speaks with it over standard input and output; logs go to standard error. --http
    serves streamable HTTP to this machine alone.

    Example:  reground mcp --corpus docs/ --method rag --model openai/gpt-4o-mini
    """
    import importlib.util

    from reground.core.errors import MissingExtra

    if importlib.util.find_spec("mcp") is None:
        raise MissingExtra("reground mcp", "mcp")
    _, err = common.consoles()
    asyncio.run(_serve(order, err, quiet=voice.quiet))


async def _serve(order: Mcp, err: Console, *, quiet: bool) -> None:
    """Serve at once, and open the documents beside it: clients wait a few seconds only for the first reply."""
    from reground.app.serving.engine import setup_of
    from reground.app.serving.mcp import over_http, over_stdio, server

    setup = setup_of(order, located=True)
    async with AsyncExitStack() as opened:
        opening = asyncio.create_task(_open(order, setup, opened, err, quiet=quiet))
        serving = server(lambda: asyncio.shield(opening), [*setup.offers], [*setup.sources])

        def say(address: str) -> None:
            err.print(f"serving {', '.join(setup.offers)} at {address}; Ctrl-C ends it", soft_wrap=True)

        work = over_http(serving, order.port, say) if order.http else over_stdio(serving)
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


async def _open(order: Mcp, setup: Setup, opened: AsyncExitStack, err: Console, *, quiet: bool) -> Tools:
    from reground.app.cli.preparing import opened_session
    from reground.app.serving.engine import open_engine
    from reground.app.serving.tools import Tools

    session = await opened.enter_async_context(opened_session(setup, err, shown=not quiet))
    return Tools(await opened.enter_async_context(open_engine(session, order)), order.result_tokens)
