"""`reground view`: runs and trajectories on a page in the browser, or in one HTML file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reground.app.cli import _common as common
from reground.app.cli.flags import flattened
from reground.app.options_serving import View

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from reground.view.contents import Contents


@flattened
def view(order: View) -> None:
    """Read runs and trajectories in the browser, question by question, also while a run goes on.

    Example:  reground view runs/rar   ·   reground view trace.jsonl --no-open   ·   reground view runs --export r.html
    """
    from reground.core.paths import expanded
    from reground.view.contents import Contents

    _, err = common.consoles()
    contents = Contents(expanded(order.place))
    if order.export is not None:
        _export(contents, expanded(order.export), err)
    else:
        asyncio.run(_serve(contents, order, err))


def _export(contents: Contents, out: Path, err: Console) -> None:
    from reground.core.files import replace_lines
    from reground.view.server import exported

    with err.status(f"writing {out}"):
        replace_lines(out, exported(contents))
    size = out.stat().st_size / 1e6
    err.print(f"{len(contents)} questions in {out} ({size:.1f} MB); it opens in a browser without a server")


async def _serve(contents: Contents, order: View, err: Console) -> None:
    from reground.app.cli.local_pages import serve_until_interrupted
    from reground.view.server import service

    def ready(url: str) -> None:
        common.say(err, f"{order.place} is at {url}/; Ctrl-C ends it")

    await serve_until_interrupted(service(contents, host=order.host), order.host, order.port, ready, opens=order.open)
