"""`reground models`: which models can be used here, and how to bring one."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reground.app.cli import _common as common
from reground.app.cli.flags import flattened
from reground.app.options import Json, Served

if TYPE_CHECKING:
    from reground.models.options import Listing

_MOST_LINES = 20
"""The most models of one provider that are printed."""

models_app = typer.Typer(
    add_completion=False,
    help="List the models that can be used here, and why the others cannot; bring a model."
    "\n\nExample:  reground models pull smollm2",
)


@models_app.callback(invoke_without_command=True)
@flattened
def models(context: typer.Context, order: Served, output: Json) -> None:
    """List the models that can be used here, with the words that choose them, and why the others cannot.

    Servers on their usual ports are found: Ollama (11434, or OLLAMA_HOST), LM Studio (1234), llama.cpp (8080), vLLM
    (8000), and the one at --base-url or OPENAI_BASE_URL.

    Example:  reground models
    """
    if context.invoked_subcommand is not None:
        return
    from reground.app.catalogue import model_listings

    listings = asyncio.run(model_listings(order.model_options))
    if output.as_json:
        common.print_json([_row(entry) for found in listings.values() for entry in found])
        return
    _show_models(listings)


def _row(entry: Listing) -> dict[str, object]:
    use = _words(entry) if entry.usable else None
    return {"name": entry.name, "usable": entry.usable, "why": entry.why, "use": use, "server": entry.server}


def _words(entry: Listing) -> str:
    """What to type for a model that can be used."""
    return entry.use if entry.use is not None else shlex.join(["--model", entry.name])


def _show_models(listings: Mapping[str, Sequence[Listing]]) -> None:
    from rich.text import Text

    from reground.app import catalogue

    console, _ = common.consoles()
    for provider, found in listings.items():
        console.print(Text.assemble((provider, "bold"), "  ", (catalogue.providers()[provider].summary, "dim")))
        for entry in found[:_MOST_LINES]:
            mark, what = (("yes ", "green"), _words(entry)) if entry.usable else (("no  ", "red"), entry.name)
            console.print(Text.assemble("  ", mark, what, "  ", (entry.why, "dim")), soft_wrap=True)
        if len(found) > _MOST_LINES:
            console.print(f"      ... and {len(found) - _MOST_LINES} more; --json lists them all")


@models_app.command("pull")
def pull_model(
    alias: Annotated[str, typer.Argument(help="smollm2, qwen2.5-coder-0.5b, or org/repo:file.gguf on a model hub.")],
) -> None:
    """Download a model once, show progress and verify its checksum.

    Example:  reground models pull smollm2
    """
    from reground.app.cli.progress import AskProgress
    from reground.models.pull import pull

    console, err = common.consoles()
    with AskProgress(err, shown=True) as progress:
        path = pull(alias, progress=progress.on_pull)
    common.say(console, f"{alias} is at {path}")
