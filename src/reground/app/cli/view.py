"""`reground view`: runs and trajectories on a page in the browser, or in one HTML file."""

from __future__ import annotations

import asyncio
import webbrowser
from functools import partial
from typing import TYPE_CHECKING

from reground.app.cli.console import consoles, note, plural
from reground.app.cli.flags import flattened
from reground.app.options import View
from reground.core.concurrency import in_daemon
from reground.core.files import expanded, replace_lines
from reground.core.http import listening
from reground.view.contents import Contents

if TYPE_CHECKING:
    from aiohttp import web

_SHUTDOWN = 0.1  # seconds that open connections have at the end


@flattened()
def view(options: View) -> None:
    """Read runs and trajectories in the browser, question by question, also while a run goes on.

    Example:  reground view runs/rar   ·   reground view trace.jsonl --no-open   ·   reground view runs --export r.html
    """
    from reground.view.server import exported, service

    contents = Contents(expanded(options.place))
    if options.export is None:
        asyncio.run(_serve(service(contents, host=options.host), options))
        return
    out = expanded(options.export)
    with consoles()[1].status(f"writing {out}"):
        replace_lines(out, exported(contents))
    note(f"{plural(len(contents), 'question')} in {out} ({out.stat().st_size / 1e6:.1f} MB); it opens without a server")


async def _serve(app: web.Application, options: View) -> None:
    """Serve until Ctrl-C. Raises ConfigurationError where the address cannot be listened at."""
    from aiohttp import web

    from reground.view.server import bounded

    opened, address = listening(options.host, options.port)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    server = await bounded(runner, opened)
    try:
        note(f"{options.place}; Ctrl-C ends it\n{address}/")
        if options.open:
            await in_daemon(partial(webbrowser.open, f"{address}/"), name="browser")
        await asyncio.Event().wait()
    finally:
        server.close()
        await runner.cleanup()
