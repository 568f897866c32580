"""What several commands share: consoles, options that mean the same everywhere, the configuration file."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reground.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.budget import Budget
    from reground.models.options import ModelOptions

_MODEL = "Model"
_BUDGET = "Budget"

BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", help="Where the OpenAI-compatible server is; else OPENAI_BASE_URL.", rich_help_panel=_MODEL
    ),
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option("--api-key-env", help="The environment variable that holds the key.", rich_help_panel=_MODEL),
]
PriceOption = Annotated[
    str | None,
    typer.Option("--price", help="USD per million prompt,completion tokens, e.g. 0.15,0.60.", rich_help_panel=_MODEL),
]
Context = Annotated[
    int | None, typer.Option("--context", help="Context a slot, in tokens (gguf).", rich_help_panel=_MODEL)
]
Slots = Annotated[
    int | None, typer.Option("--slots", help="Calls that are decoded together (gguf).", rich_help_panel=_MODEL)
]
Adapter = Annotated[
    Path | None, typer.Option("--adapter", help="A LoRA adapter's folder (hf).", rich_help_panel=_MODEL)
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache", help="A file that answers repeated temperature-0 calls across runs.", rich_help_panel=_MODEL
    ),
]
Rewriter = Annotated[
    str | None,
    typer.Option(
        "--rewriter",
        help="A model (provider/model) that rewrites queries, for methods that take one; same server options.",
        rich_help_panel=_MODEL,
    ),
]
BudgetTokens = Annotated[
    int | None, typer.Option("--budget-tokens", min=1, help="Most tokens, prompts included.", rich_help_panel=_BUDGET)
]
BudgetCalls = Annotated[
    int | None, typer.Option("--budget-calls", min=1, help="Most model calls.", rich_help_panel=_BUDGET)
]
BudgetSeconds = Annotated[
    float | None, typer.Option("--budget-seconds", min=0, help="Most wall-clock seconds.", rich_help_panel=_BUDGET)
]
BudgetUsd = Annotated[
    float | None, typer.Option("--budget-usd", min=0, help="Most US dollars; needs --price.", rich_help_panel=_BUDGET)
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file with the same names as the options; reground.toml here if there is one.",
        is_eager=True,
        callback=lambda context, value: use_config(context, value),
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", help="The documents' language, by code or English name: de, ja, ... [default: en]"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the method, e.g. --set k=3. May be repeated."),
]


def consoles() -> tuple[Console, Console]:
    """Standard output for results, standard error for everything else."""
    from reground.app.cli.terminal import HarmlessConsole

    return HarmlessConsole(highlight=False), HarmlessConsole(stderr=True, highlight=False)


def read_config(path: Path | None) -> dict[str, Any]:
    """The configuration file's content; {} when none is named and there is no reground.toml here."""
    if path is None:
        path = Path("reground.toml")
        if not path.is_file():
            return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read the configuration: {error.strerror}", path=path) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not a TOML file: {error}", path=path) from None


_TABLES = {"budget", "settings"}
_NO_KEYS = {"config", "set", "help", "version", "install_completion", "show_completion"}


def check_config(config: Mapping[str, Any], known: AbstractSet[str]) -> None:
    """Refuse a configuration with keys that no command reads."""
    from reground.app.catalogue import did_you_mean

    for key, value in config.items():
        if key not in known:
            raise ConfigurationError(f"the configuration has an unknown key {key!r}; {did_you_mean(key, known)}")
        if (key in _TABLES) != isinstance(value, dict):
            what = f"is a table: write [{key}] on a line of its own" if key in _TABLES else "is no table"
            raise ConfigurationError(f"{key} in the configuration {what}")


def config_keys(root: Any) -> set[str]:
    """What a configuration file may hold: every option of a command that reads one, and all that a model can be set to."""
    from reground.models.options import ModelOptions

    commands, keys = [root], {field.name for field in dataclasses.fields(ModelOptions)} | _TABLES
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        names = _option_names(command)
        if "config" in names:
            keys |= names.keys() - _NO_KEYS
    return keys


def _option_names(command: Any) -> dict[str, str]:
    """A command's options as a configuration writes them, and the parameters behind them."""
    return {
        option[2:].replace("-", "_"): parameter.name
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let the configuration file's values stand where an option is not given."""
    if not context.resilient_parsing:
        config = read_config(path)
        check_config(config, config_keys(context.find_root().command))
        names = _option_names(context.command)
        given = {names[key]: value for key, value in config.items() if key in names and key not in _NO_KEYS}
        context.default_map = {**(context.default_map or {}), **given}
    return path


def model_options(config: Mapping[str, Any], **flags: Any) -> ModelOptions:
    """Options for a model: the configuration's, overridden by the flags that were given."""
    from reground.models.options import ModelOptions, Price

    names = {field.name for field in dataclasses.fields(ModelOptions)}
    merged = {key: value for key, value in config.items() if key in names}
    merged.update({key: value for key, value in flags.items() if value is not None})
    if isinstance(merged.get("price"), str):
        merged["price"] = Price.parse(merged["price"])
    for key in ("adapter", "cache"):
        if isinstance(merged.get(key), str):
            merged[key] = Path(merged[key])
    return ModelOptions(**merged)


def budget_from(config: Mapping[str, Any], **flags: float | None) -> Budget:
    """A budget: the configuration's [budget] table, overridden by the flags that were given."""
    from pydantic import ValidationError

    from reground.core.budget import Budget

    merged = {**config.get("budget", {}), **{key: value for key, value in flags.items() if value is not None}}
    try:
        return Budget.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"the budget's {first['loc'][0]} is wrong: {first['msg']}") from None


def parse_settings(config: Mapping[str, Any], given: list[str] | None) -> dict[str, object]:
    """A method's settings: the configuration's [settings] table, overridden by --set KEY=VALUE."""
    settings: dict[str, object] = dict(config.get("settings", {}))
    for item in given or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"--set takes KEY=VALUE, got {item!r}")
        settings[key.strip()] = _read_value(value)
    return settings


def _read_value(value: str) -> object:
    """TOML's reading of a value where it has one (3, 0.5, true, [1, 2], {draft = "..."}), else the text itself."""
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def setting_text(value: object) -> str:
    """A setting as --set reads it back: a plain word as it is, anything else as TOML, and none."""
    if isinstance(value, str) and value == value.strip() and _read_value(value) == value and value.lower() not in _NONE:
        return value
    if isinstance(value, tuple | list):
        return f"[{', '.join(json.dumps(each) for each in value)}]"
    return "none" if value is None else json.dumps(value)


_NONE = frozenset({"none", "null"})


def human_tokens(count: int) -> str:
    """1234 as 1.2k."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1e6:.2f}M"
