"""`reground config`: what the user set for all folders."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from reground.app import catalogue
from reground.app.cli import flags
from reground.app.cli.console import note, say
from reground.core.errors import ConfigurationError
from reground.core.files import config_file, expanded, replace_lines
from reground.models.pull import check
from reground.retrieval.embedders import create_embedder
from reground.retrieval.filters import where

_CHECKS: dict[str, Callable[[str], object]] = {"method": catalogue.method, "embedder": create_embedder, "where": where}
_CHECKS |= dict.fromkeys(("model", "rewriter"), catalogue.provider_module)
"""What refuses a value that no command can use."""
config_app = typer.Typer(add_completion=False)
Key = Annotated[str, typer.Argument(help="The name of an option, such as model, corpus or budget_tokens.")]


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Show what is set for all folders and for this one, the files that say so, and what is not taken from them.

    The command line counts for more than --config or the reground.toml of a folder, and these for more than your file.

    Example:  reground config   ·   reground config set model ollama/llama3.2   ·   reground config unset model
    """
    if context.invoked_subcommand is not None:
        return
    own, here, root = config_file(), Path(flags.DEFAULT), context.find_root().command
    if not own.is_file():
        note(f"{own}: nothing is set")
    for file in filter(Path.is_file, (own, here)):
        config = flags.read_config(file)
        say(f"# {file.absolute()}\n{file.read_text(encoding='utf-8-sig').rstrip()}")
        flags.check_config(config, flags.config_keys(root))
        for refused in flags.not_taken(config, root) if file == here else ():
            note(f"note: {refused}")


@config_app.command("set")
def set_value(context: typer.Context, key: Key, value: Annotated[str, typer.Argument(help="Its value.")]) -> None:
    """Set an option for all folders.

    Example:  reground config set model ollama/llama3.2   ·   reground config set corpus ~/notes
    """
    parsed = flags.read_value(value)
    flags.check_value(context.find_root().command, key, parsed)
    is_path = isinstance(parsed, str) and key in ("corpus", "data", "home") and expanded(parsed).exists()
    if key == "corpus" and not is_path and not {"=", ":"} & {*value}:  # an address, or a name with a folder
        raise ConfigurationError(f"{value}: there is no such folder or file")
    _CHECKS.get(key, str)(value)
    if key in ("model", "rewriter") and value.startswith("gguf/"):
        check(value.removeprefix("gguf/"))
    _write(context, key, json.dumps(str(expanded(value).resolve()) if is_path else parsed, ensure_ascii=False))


@config_app.command("unset")
def unset(context: typer.Context, key: Key) -> None:
    """Take back what was set.

    Example:  reground config unset model
    """
    _write(context, key, None)


def _write(context: typer.Context, key: str, value: str | None) -> None:
    """Put a line into the file in place of that of the key. Raises ConfigurationError, and then changes nothing."""
    file = config_file()
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    others = [line for line in lines if line.partition("=")[0].strip() != key]
    if value is None and others == lines:
        raise ConfigurationError(f"{key} is not set in {file}")
    text = "".join(f"{line}\n" for line in ([] if value is None else [f"{key} = {value}"]) + others)
    try:
        config: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{file} cannot be changed by a command, so change it by hand: {error}") from None
    flags.check_config(config, flags.config_keys(context.find_root().command))
    replace_lines(file, [text.encode()])
    note(f"written: {file}")
