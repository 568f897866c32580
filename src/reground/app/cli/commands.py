"""The commands: where each is, and in which panel of the help. A command's file is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from reground import __version__
from reground.app.cli.flags import Command

_PANELS = {
    "Ask": {"ask": "ask", "chat": "chat", "demo": "demo", "serve": "serving:serve", "mcp": "mcp"},
    "Look": {
        "index": "index",
        "retrieve": "searching:retrieve",
        "show": "show",
        "view": "view",
        "models": "models:models_app",
        "methods": "methods",
    },
    "Measure and train": {
        "eval": "eval:evaluate",
        "compare": "compare",
        "report": "report",
        "judge": "judge",
        "questions": "questions",
        "freeze": "searching:freeze",
        "train": "train:train_app",
    },
}
"""Module and function of each command, where they are not both called like it."""


class _Commands(dict[str, Any]):
    """Commands by name, each loaded when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(place := super().__getitem__(name), tuple):
            self[name] = _loaded(name, *place)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The command of a name."""
        return self[name] if name in self else default  # noqa: SIM401  (dict.get would give the place)

    def values(self) -> Any:
        """All commands."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """All names with their commands."""
        return zip(self, self.values(), strict=True)


def _loaded(name: str, place: str, panel: str) -> Any:
    module, _, attribute = place.partition(":")
    command = getattr(import_module(f"reground.app.cli.{module}"), attribute or module)
    if name == "train":
        _add_trainers()
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name, cls=Command)(command)
        command = alone
    loaded = typer.main.get_command(command)
    loaded.name, loaded.rich_help_panel = name, panel  # type: ignore[attr-defined]
    return loaded


def _add_trainers() -> None:
    from reground.app.cli import train, train_agent, train_critics, train_rewriter

    for module in (train_critics, train_rewriter, train_agent):
        module.register(train.train_app)


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


def _places() -> Iterable[tuple[str, tuple[str, str]]]:
    return ((name, (place, panel)) for panel, places in _PANELS.items() for name, place in places.items())


cli: Any = typer.main.get_command(app)
cli.commands = _Commands(_places())
