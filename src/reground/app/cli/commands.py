"""The tree of commands. Each group registers its own; a command imports what it needs when it runs."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from reground import __version__
from reground.app.cli import (
    ask,
    chat,
    demo,
    index,
    judge,
    mcp,
    methods,
    models,
    questions,
    searching,
    serving,
    show,
    train,
    train_agent,
    train_critics,
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
app.command()(index.index)
app.command()(show.show)
app.add_typer(models.models_app, name="models")
app.command()(methods.methods)
app.command()(view.view)
evaluation.register(app)
judge.register(app)
questions.register(app)
searching.register(app)
mcp.register(app)
serving.register(app)
train.register(app)
train_critics.register(train.train_app)
train_rewriter.register(train.train_app)
train_agent.register(train.train_app)


def _ordered(group: Any) -> Any:
    """The commands in the panels of the help, in this order."""
    panels = {
        "Ask": ("ask", "chat", "demo", "serve", "mcp"),
        "Look": ("index", "retrieve", "show", "view", "models", "methods"),
        "Measure and train": ("eval", "compare", "report", "judge", "questions", "freeze", "train"),
    }
    for panel, names in panels.items():
        for name in names:
            group.commands[name].rich_help_panel = panel
    places = {name: place for place, name in enumerate(chain.from_iterable(panels.values()))}
    group.commands = dict(sorted(group.commands.items(), key=lambda each: places.get(each[0], len(places))))
    return group


cli = _ordered(typer.main.get_command(app))
