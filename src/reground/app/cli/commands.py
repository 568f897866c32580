"""The commands: a file for each, imported when the command is asked for, and the panel of the help that lists it."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from reground import __version__
from reground.app.cli.console import say
from reground.app.cli.flags import Command

_PANELS = {
    "Ask": ("ask", "chat", "demo", "serve", "mcp"),
    "Look": ("index", "retrieve", "show", "view", "models", "methods"),
    "Measure and train": ("eval", "compare", "report", "judge", "questions", "freeze", "train"),
}
_FUNCTIONS = {"eval": "evaluate", "models": "models_app", "train": "train_app"}
"""What a file calls its command, where it is not the name."""


class _Commands(dict[str, Any]):
    """Commands by name, each None until it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if (command := super().__getitem__(name)) is None:
            command = self[name] = _loaded(name)
        return command

    def get(self, name: str, default: Any = None) -> Any:
        """The command of a name."""
        return self[name] if name in self else default  # noqa: SIM401  (dict.get would give None)

    def values(self) -> Any:
        """All commands."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """All names with their commands."""
        return zip(self, self.values(), strict=True)


def _loaded(name: str) -> Any:
    command = getattr(import_module(f"reground.app.cli.{name}"), _FUNCTIONS.get(name, name))
    if name == "train":
        for trainer in ("critics", "rewriter", "agent"):
            module = import_module(f"reground.app.cli.train_{trainer}")
            command.add_typer(getattr(module, f"{trainer}_app"), name=trainer)
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name, cls=Command)(command)
        command = alone
    loaded: Any = typer.main.get_command(command)
    loaded.name = name
    loaded.rich_help_panel = next(panel for panel, names in _PANELS.items() if name in names)
    return loaded


app = typer.Typer(
    name="reground",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
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


cli: Any = typer.main.get_command(app)
cli.commands = _Commands.fromkeys(name for names in _PANELS.values() for name in names)
