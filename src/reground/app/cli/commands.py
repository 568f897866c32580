"""The commands: a file for each, imported when the command is asked for, and the panel of the help that lists it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from reground import __version__
from reground.app.cli.console import say
from reground.app.cli.flags import Command

_PANELS = {
    "Ask": ("ask", "check", "chat", "demo", "serve", "mcp"),
    "Look": ("index", "retrieve", "log", "show", "view", "models", "methods", "config"),
    "Measure and train": ("eval", "compare", "report", "judge", "questions", "train"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
_FUNCTIONS = {"eval": "evaluate", "config": "config_app", "models": "models_app", "train": "train_app"}
"""What a file calls its command, where it is not the name."""
_FILES = {"log": "show", "report": "eval"}
"""The files of commands that have none of their own."""


class _Commands(Mapping[str, Any]):
    """Commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _loaded(name, _PANEL_OF[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_PANEL_OF)

    def __len__(self) -> int:
        return len(_PANEL_OF)


@cache
def _loaded(name: str, panel: str) -> Any:
    command = getattr(import_module(f"reground.app.cli.{_FILES.get(name, name)}"), _FUNCTIONS.get(name, name))
    if name == "train":
        for trainer in ("critics", "rewriter", "agent"):
            module = import_module(f"reground.app.cli.train_{trainer}")
            command.add_typer(getattr(module, f"{trainer}_app"), name=trainer)
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name, cls=Command)(command)
        command = alone
    loaded: Any = typer.main.get_command(command)
    loaded.name, loaded.rich_help_panel = name, panel
    return loaded


app = typer.Typer(
    name="reground",
    invoke_without_command=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        say(f"reground {__version__}")
        raise typer.Exit()


_BEGIN = """\
Answer hard questions from your documents. To begin with:

  reground demo                        a question to articles that come with it
  reground ask "..." --corpus FOLDER   a question to your own documents
  reground models                      the models that you can use

reground --help lists all commands."""


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answer hard questions from your documents: reason step by step and revise each step with evidence.

    First steps:  reground demo   ·   reground ask "..." --corpus DIR   ·   reground models
    """
    if context.invoked_subcommand is None:
        say(_BEGIN)


cli: Any = typer.main.get_command(app)
cli.commands = _Commands()
