"""Small servers on this machine that a command runs until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

_SHUTDOWN = 0.1
"""Seconds that open connections have at the end."""


async def serve_until_interrupted(
    app: web.Application, host: str, port: int, on_ready: Callable[[str], None], *, opens: bool = False
) -> None:
    """Serve until Ctrl-C. on_ready: told the address, without a slash at its end. opens: show it in the browser.

    Raises ConfigurationError where the address cannot be listened at.
    """
    import webbrowser

    from aiohttp import web

    from reground.core.concurrency import in_daemon
    from reground.core.http import cannot_listen

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        found, number = runner.addresses[0][:2]
        url = f"http://{f'[{found}]' if ':' in found else found}:{number}"
        on_ready(url)
        if opens:
            await in_daemon(lambda: webbrowser.open(f"{url}/"), name="browser")
        await asyncio.Event().wait()
    except (OSError, OverflowError) as error:
        raise cannot_listen(host, port, error) from None
    finally:
        await runner.cleanup()
