"""`reground serve`: methods over models and documents, behind OpenAI's interface."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Annotated

import typer

from reground.app.cli.console import note, plural, say
from reground.app.cli.flags import ConfigFile, Quiet, flattened
from reground.app.cli.progress import opened
from reground.app.options import Serve
from reground.app.serving.engine import open_engine, setup_of
from reground.app.serving.keys import Keys, checked_keys, new_key, place_of_keys
from reground.app.session import Session
from reground.core.errors import MissingExtra


@flattened("corpus", "method", "model", "settings", "budget__tokens", "host", "port", "keys", "new_key_name", "quiet")
def serve(
    options: Serve,
    quiet: Quiet = False,
    new_key_name: Annotated[
        str | None,
        typer.Option(
            "--new-key",
            metavar="NAME[=CORPUS,...]",
            help="Make a key of this name, for these documents alone if any are named, print it once, and end.",
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Serve methods over models and documents behind OpenAI's interface: chat completions, responses, models.

    Example:  reground serve --corpus docs/ --model openai/gpt-4o-mini --method rar --method rag
    """
    if new_key_name is not None:
        path = place_of_keys(options)
        say(new_key(path, new_key_name))
        note(f"shown this once; its hash is in {path}, and without its line there the key ends")
        return
    # a line for each request, and why one failed
    logging.getLogger("reground.serve").setLevel(logging.WARNING if quiet else logging.INFO)
    asyncio.run(_serve(options, checked_keys(options), quiet=quiet))


async def _serve(options: Serve, keys: Keys | None, *, quiet: bool) -> None:
    try:
        from reground.app.serving.server import serve as serve_engine
    except ModuleNotFoundError as error:
        raise MissingExtra("reground serve", "serve") from error

    async with (
        opened(partial(Session.open, setup_of(options)), quiet=quiet) as session,
        open_engine(session, options) as engine,
    ):

        def on_ready(address: str) -> None:
            access = plural(len(keys), "key") if keys is not None else "no keys"
            what = plural(len(engine.offers), "model") if engine.offers else "searches"
            places = f"page: {address}/\nAPI: {address}/v1" if engine.offers else f"{address}/retrieve"
            note(f"serving {what}, {access}; Ctrl-C ends it\n{places}")

        await serve_engine(engine, options, keys, on_ready)
