"""`reground eval`, `reground compare` and `reground report`: methods on benchmarks, at equal cost."""

from __future__ import annotations

import typer


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
