"""The configuration file, whose values apply where an option is not given, and `--set`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from reground.core.errors import ConfigurationError, DataError, did_you_mean
from reground.core.http import is_loopback

SETTINGS = "settings"
"""The table of the method's settings, and the name of the parameter behind --set."""
DEFAULT = "reground.toml"
INNER = "__"
"""Separates, in a parameter's name, the name of a table from the name of a key in it."""
_NO_KEYS = {"config", "set", "help", "version", "install_completion", "show_completion"}
_OPENINGS = frozenset({"web_network", "allow_origin", "no_keys", "keys", "host"})
"""Keys that let web pages of one's own network be fetched, or others reach a server."""
_CODE = re.compile(r"\.py(?:[:+]\S*)?\s*(?:,|$)")
"""The end of a value that names a file of code, alone or among others."""


def _heed(context: typer.Context, path: Path | None) -> Path | None:
    """Use the file's values for options that are not given. A top-level key overrides the key in a table."""
    if context.resilient_parsing:
        return path
    config = read_config(path)
    if path is None:
        check_found(config)
    keys = config_keys(context.command)
    # the other commands' keys are looked up only if this command does not know them all
    check_config(config, keys if config.keys() <= keys.keys() else config_keys(context.find_root().command))
    values: dict[str, Any] = {}
    for key, parameter in _options(context.command):
        table, _, inner = parameter.name.partition(INNER)
        if key in config and key not in _NO_KEYS:
            values[parameter.name] = _fit(context, config[key], parameter, f"{key} in {path or DEFAULT}")
        elif inner in config.get(table, {}):
            where = f"{table}.{inner} in {path or DEFAULT}"
            values[parameter.name] = _fit(context, config[table][inner], parameter, where)
    context.meta[SETTINGS] = config.get(SETTINGS, {})
    context.default_map = {**(context.default_map or {}), **values}
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file with the same names as the options; reground.toml here if there is one.",
        is_eager=True,
        callback=_heed,
    ),
]


def read_config(path: Path | None) -> dict[str, Any]:
    """The content of the configuration file; {} if none is named and the current folder has no reground.toml."""
    if path is None:
        path = Path(DEFAULT)
        if not path.is_file():
            return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"cannot read the configuration: {error.strerror}", path=path) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not a TOML file: {error}", path=path) from None


def config_keys(root: Any) -> dict[str, set[str]]:
    """The keys that a configuration file may have, with the keys in them if they are tables: the options of every
    command that reads a file."""
    commands, keys = [root], {SETTINGS: set[str]()}
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        options = dict(_options(command))
        for key, parameter in options.items() if "config" in options else ():
            if key not in _NO_KEYS:
                keys.setdefault(key, set())
            table, _, inner = parameter.name.partition(INNER)
            if inner:
                keys.setdefault(table, set()).add(inner)
    return keys


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """The options of a command, as keys of a configuration, with their parameters."""
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("--"):
                yield option[2:].replace("-", "_"), parameter


def check_config(config: Mapping[str, Any], known: Mapping[str, set[str]]) -> None:
    """Refuse a configuration with keys that no command reads. Raises ConfigurationError."""
    for key, value in config.items():
        if key not in known:
            raise ConfigurationError(f"the configuration has an unknown key {key!r}; {did_you_mean(key, known)}")
        is_table = bool(known[key]) or key == SETTINGS
        if is_table != isinstance(value, dict):
            what = f"is a table: write [{key}] on a line of its own" if is_table else "is no table"
            raise ConfigurationError(f"{key} in the configuration {what}")
        for inner in value if known[key] else ():
            if inner not in known[key]:
                near = did_you_mean(inner, known[key])
                raise ConfigurationError(f"[{key}] in the configuration has an unknown key {inner!r}; {near}")


def check_found(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that only lay in the current folder where it would run code, send keys and questions to
    another machine, or a key that it names to any server, or open an edge. Raises ConfigurationError."""
    values = list(_values(config))
    pass_it = f"{DEFAULT} was only found here: if it is yours, pass --config {DEFAULT}"
    for key, value in values:
        if isinstance(value, str) and _CODE.search(value):
            raise ConfigurationError(f"{key} in {DEFAULT} names code, {value!r}, and {pass_it}")
        if key == "base_url" and isinstance(value, str) and _is_elsewhere(value):
            told = f"{key} in {DEFAULT} is an address on another machine, which would get your questions and your key"
            raise ConfigurationError(f"{told}, and {pass_it}")
        if key in _OPENINGS:
            raise ConfigurationError(f"{key} in {DEFAULT} lets in what is kept out otherwise, and {pass_it}")
    if {"api_key_env", "base_url"} <= {key for key, _ in values}:
        raise ConfigurationError(f"{DEFAULT} has api_key_env and base_url, which send a key to a server, and {pass_it}")


def _is_elsewhere(address: str) -> bool:
    """Whether this is an address that may not be of this machine alone."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return True
    return host is not None and not is_loopback(host)


def _values(config: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value at any depth, with the key that is nearest to it."""
    if isinstance(config, Mapping | list):
        for name, inner in config.items() if isinstance(config, Mapping) else ((key, each) for each in config):
            yield from _values(inner, name)
    else:
        yield key, config


def _fit(context: typer.Context, value: Any, parameter: Any, where: str) -> Any:
    """The value as the command line would give it. Raises ConfigurationError if the option does not accept it."""
    several = getattr(parameter, "multiple", False)
    flag = bool(getattr(parameter, "is_flag", False))
    values = value if several and isinstance(value, list) else [value]
    if any(isinstance(each, list) or isinstance(each, bool) != flag for each in values):
        what = "true or false" if flag else "a list of texts" if several else "one text or number"
        raise ConfigurationError(f"{where} is {what}, not {json.dumps(value, default=str)}")
    fitting = [str(each) for each in values] if several else value if flag else str(value)
    try:
        parameter.process_value(context, fitting)
    except typer.BadParameter as error:
        raise ConfigurationError(f"{where} cannot be {value!r}: {error.message}") from None
    return fitting


def parse_settings(config: Mapping[str, object], given: list[str] | None) -> dict[str, object]:
    """A method's settings: [settings] of the configuration, overridden by --set KEY=VALUE."""
    settings = dict(config)
    for item in given or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"--set takes KEY=VALUE, got {item!r}")
        settings[key.strip()] = _read_value(value)
    return settings


def _read_value(value: str) -> object:
    """Read a value as TOML (3, 0.5, true, [1, 2], {draft = "..."}); return the text itself if it is not TOML."""
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def setting_text(value: object) -> str:
    """Write a setting so that --set can read it: a plain word unchanged, None as none, anything else as TOML."""
    if (
        isinstance(value, str)
        and value == value.strip() == _read_value(value)
        and value.lower() not in {"none", "null"}
    ):
        return value
    return "none" if value is None else json.dumps(value)
