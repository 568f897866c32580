"""`reground ask`: answer a question and show the evidence; and the models that are offered where none was named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from reground.app.catalogue import found_servers
from reground.app.cli.console import consoles, note, print_json
from reground.app.cli.display import show_result
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.options import DEFAULT_READER, Ask
from reground.app.session import answer
from reground.core.answers import PHRASE
from reground.core.errors import EXIT_UNGROUNDED, MissingExtra
from reground.downloads import PullError

Steps = Annotated[
    bool, typer.Option("--steps", help="Show the steps too: each draft, the evidence, and what was corrected.")
]


@flattened(
    *("question", "corpus", "where", "web", "method", "model", "form", "settings", "budget__tokens"),
    *("retrieval", "steps", "as_json", "quiet", "fresh"),
)
def ask(
    context: typer.Context,
    options: Ask,
    steps: Steps = False,
    as_json: Json = False,
    quiet: Quiet = False,
    config: ConfigFile = None,
) -> None:
    """Answer a question step by step, and revise each step with evidence from your documents.

    The same command resumes an interrupted run and replays a finished one. Exit codes: 0 answered from your documents
    (or by a method that reads none), 4 they do not say it, 1 no answer, 2 the command or the environment is wrong.

    Example:  reground ask "Which bridge is older?" --corpus docs/ --method rar
    """
    is_named = is_model_named(context)
    if options.form == PHRASE.name and not is_named:
        options = replace(options, model=DEFAULT_READER)
    with other_models_offered(is_named=is_named), Progress(visible=not quiet and not as_json) as progress:
        result = asyncio.run(answer(replace(options, observer=progress.observer(progress.on_event)), progress.opening))
    if as_json:
        print_json(result.to_dict(), indent=2)
    else:
        show_result(consoles()[0], result, steps=steps)
    if not (quiet or as_json or is_named) and (words := other_model()):
        note(f"note: no model was named, so {options.model} answered; this machine has others: {words}")
    if result.ungrounded is not None:
        raise typer.Exit(EXIT_UNGROUNDED)


def is_model_named(context: typer.Context) -> bool:
    """Whether the command line or the configuration file names the model."""
    source = context.get_parameter_source("model")
    return source is not None and source.name != "DEFAULT"


def other_model() -> str | None:
    """What to type for the first model of a server on this machine; None if none answers. Takes under a second."""
    servers = asyncio.run(found_servers())
    if not servers:
        return None
    more = f" ({len(servers) - 1} more: reground models)" if len(servers) > 1 else ""
    return f"{servers[0].use}{more}"


@contextmanager
def other_models_offered(*, is_named: bool) -> Iterator[None]:
    """Within the block, the error for a default model that cannot be had also names a model that answers here."""
    try:
        yield
    except (MissingExtra, PullError) as error:
        if not is_named and (words := other_model()) is not None:
            error.args = (f"{error}; or take a model that answers on this machine: {words}",)
        raise
