"""The tree of commands. Each group registers its own; a command imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from reground import __version__
from reground.app.cli import (
    arena,
    ask,
    chat,
    demo,
    judge,
    library,
    look,
    mcp,
    questions,
    searching,
    serving,
    train,
    train_agent,
    train_critics,
    train_reader,
    train_rewriter,
    view,
)
from reground.app.cli import eval as evaluation
from reground.app.cli.flags import Command


class _Cli(typer.Typer):
    def command(self, *args: Any, **options: Any) -> Any:
        """As typer has it, of the kind that `flags` knows."""
        return super().command(*args, **{"cls": Command, **options})


app = _Cli(
    name="reground",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from reground.app.cli.terminal import say

        say(f"reground {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answer hard questions from your documents: reason step by step and revise each step with evidence.

    First steps:  reground demo   ·   reground ask "..." --corpus DIR   ·   reground models
    """


ask.register(app)
chat.register(app)
demo.register(app)
library.register(app)
look.register(app)
view.register(app)
evaluation.register(app)
judge.register(app)
arena.register(app)
questions.register(app)
searching.register(app)
mcp.register(app)
serving.register(app)
train.register(app)
train_critics.register(train.train_app)
train_reader.register(train.train_app)
train_rewriter.register(train.train_app)
train_agent.register(train.train_app)
cli = typer.main.get_command(app)
