"""`reground models`: which models can be used here, and how to bring one."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from reground.app import catalogue
from reground.app.cli.console import consoles, print_json, say
from reground.app.cli.flags import Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.options import DEFAULT_MODEL, Served
from reground.models.options import Listing
from reground.models.pull import pull

_MOST_LINES = 20
"""The most models of one provider that are printed."""

models_app = typer.Typer(add_completion=False)


@models_app.callback(invoke_without_command=True)
@flattened()
def models(context: typer.Context, options: Served, as_json: Json = False) -> None:
    """List the models that can be used here, with the words that choose them, and why the others cannot.

    Servers on their usual ports are found: Ollama (11434, or OLLAMA_HOST), LM Studio (1234), llama.cpp (8080), vLLM
    (8000), SGLang (30000), and the one at --base-url or OPENAI_BASE_URL.

    Example:  reground models   ·   reground models pull smollm2
    """
    if context.invoked_subcommand is not None:
        return
    listings = asyncio.run(catalogue.model_listings(options.model_options))
    if as_json:
        return print_json([asdict(each) | {"use": _words(each)} for entries in listings.values() for each in entries])
    console, _ = consoles()

    def rank(listed: tuple[str, list[Listing]]) -> tuple[bool, bool]:
        """The usable ones first, and among them the default."""
        return not any(entry.usable for entry in listed[1]), DEFAULT_MODEL not in [entry.name for entry in listed[1]]

    for provider, entries in sorted(listings.items(), key=rank):
        entries.sort(key=lambda entry: not entry.usable)
        console.print(Text(catalogue.providers()[provider].summary or provider, "bold"))
        for entry in entries[:_MOST_LINES]:
            mark = ("yes ", "green") if entry.usable else ("no  ", "red")
            default = " (the default)" if entry.name == DEFAULT_MODEL else ""
            words = f"{_words(entry) or entry.name}{default}"
            console.print(Text.assemble("  ", mark, words, "  ", (entry.why, "dim")), soft_wrap=True)
        if len(entries) > _MOST_LINES:
            console.print(f"      ... and {len(entries) - _MOST_LINES} more; --json lists them all")
    return None


def _words(entry: Listing) -> str | None:
    """What to type for a model; None if it cannot be used."""
    return (entry.use or shlex.join(["--model", entry.name])) if entry.usable else None


@models_app.command("pull")
@flattened()
def pull_model(
    alias: Annotated[str, typer.Argument(help="smollm2, qwen2.5-coder-0.5b, or org/repo:file.gguf on a model hub.")],
    quiet: Quiet = False,
) -> None:
    """Download a model once, show progress and verify its checksum.

    Example:  reground models pull smollm2
    """
    with Progress(visible=not quiet) as progress:
        path = pull(alias, progress=progress.on_pull)
    say(f"{alias} is at {path}")
