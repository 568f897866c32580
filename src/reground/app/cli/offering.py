"""Offers a model of a server that answers on this machine, where no model was named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import typer


def is_model_named(context: typer.Context) -> bool:
    """Whether the command line or the configuration file names the model."""
    source = context.get_parameter_source("model")
    return source is not None and source.name != "DEFAULT"


def found_words() -> str | None:
    """What to type for the first model of a server on this machine; None if none answers. Takes under a second."""
    from reground.app.catalogue import found_servers

    found = asyncio.run(found_servers())
    if not found:
        return None
    more = f" ({len(found) - 1} more: reground models)" if len(found) > 1 else ""
    return f"{found[0].use}{more}"


@contextmanager
def offered_instead(*, named: bool) -> Iterator[None]:
    """Within the block, the error for a default model that cannot be had also names a model that answers here."""
    from reground.core.errors import MissingExtra
    from reground.downloads import PullError

    try:
        yield
    except (MissingExtra, PullError) as error:
        if not named and (words := found_words()) is not None:
            error.args = (f"{error}; or take a model that answers on this machine: {words}",)
        raise
