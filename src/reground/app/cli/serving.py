"""`reground serve`: methods over models and documents, behind OpenAI's interface."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_serving import Serve

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.serving.keys import Keys


@flattened
def serve(
    order: Serve,
    voice: Quiet,
    new_key: Annotated[
        str | None,
        typer.Option("--new-key", metavar="NAME", help="Make a key of this name, print it once, and end."),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Serve methods over models and documents behind OpenAI's interface: chat completions, responses, models.

    Example:  reground serve --corpus docs/ --model openai/gpt-4o-mini --method rar --method rag
    """
    from reground.app.serving.keys import checked_keys, place_of_keys

    console, err = common.consoles()
    if new_key is not None:
        from reground.app.serving.keys import new_key as made

        path = place_of_keys(order)
        common.say(console, made(path, new_key))
        common.say(err, f"shown this once; its hash is in {path}, and without its line there the key ends")
        return
    keys = checked_keys(order)
    _log_to(err, quiet=voice.quiet)
    asyncio.run(_serve(order, keys, err, quiet=voice.quiet))


async def _serve(order: Serve, keys: Keys | None, err: Console, *, quiet: bool) -> None:
    from reground.app.cli.preparing import opened_session
    from reground.app.serving.engine import open_engine, setup_of
    from reground.core.errors import MissingExtra

    try:
        from reground.app.serving.server import serve as served
    except ModuleNotFoundError as error:
        raise MissingExtra("reground serve", "serve") from error

    async with (
        opened_session(setup_of(order), err, shown=not quiet) as session,
        open_engine(session, order) as engine,
    ):

        def ready(address: str) -> None:
            asked = f"{len(keys)} keys" if keys is not None else "no keys"
            what = f"{len(engine.offers)} models at {address}/v1" if engine.offers else f"{address}/retrieve"
            common.say(err, f"serving {what}, {asked}; Ctrl-C ends it")

        await served(engine, order, keys, ready)


def _log_to(err: Console, *, quiet: bool) -> None:
    """Show the log's lines: one for each request, and why one failed."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            common.say(err, record.getMessage())

    log = logging.getLogger("reground.serve")
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.addHandler(Lines())
    log.propagate = False
