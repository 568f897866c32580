"""What several commands share: consoles, options that mean the same everywhere, the configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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
        "--config", help="A TOML file with the same names as the options; reground.toml here if there is one."
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
    from rich.console import Console

    return Console(highlight=False), Console(stderr=True, highlight=False)


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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not a TOML file: {error}", path=path) from None


_CONFIG_KEYS = {
    "method", "model", "corpus", "language", "form", "base_url", "api_key_env", "price", "context", "slots", "adapter", "cache",
    "budget", "settings", "connections", "requests_per_minute", "tokens_per_minute", "attempts", "deadline", "timeout",
    "threads",
}  # fmt: skip


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse a configuration with keys that nothing reads."""
    from reground.app.catalogue import did_you_mean

    for key in config:
        if key not in _CONFIG_KEYS:
            raise ConfigurationError(f"the configuration has an unknown key {key!r}; {did_you_mean(key, _CONFIG_KEYS)}")


def model_options(config: Mapping[str, Any], **flags: Any) -> ModelOptions:
    """Options for a model: the configuration's, overridden by the flags that were given."""
    import dataclasses

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
    except tomllib.TOMLDecodeError:
        return value


def human_tokens(count: int) -> str:
    """1234 as 1.2k."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1e6:.2f}M"
