"""Turns a command that takes dataclasses into a command whose options are their fields.

A field's name gives the option and the key, its type says how to read a value, and its description is the help. A
field that holds a record (`budget`, `model_options`) gives one option for each field of the record. `--help` lists a
command's everyday options with the first sentence of each description, `--help-all` all options in full. The keys of
the configuration file, whose values apply where an option is not given, are the same fields.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import tomllib
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperArgument, TyperCommand

from reground.app import catalogue
from reground.app.cli.console import consoles, note, say
from reground.app.options import field_names, from_mapping, is_word, meanings
from reground.core.answers import FORMS
from reground.core.budget import MOST_COUNT
from reground.core.errors import ConfigurationError, DataError, did_you_mean
from reground.core.files import config_file, expanded, regular
from reground.core.user_code import origin
from reground.models.pull import ALIASES

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress."), is_word]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON."), is_word]
_ALL = "help_all"
_LARGEST = 1 << 15  # bytes of a file: the time of a key's parts grows with the square of their number
_SIMPLE = (bool, int, float, Path, str)
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SENTENCE = re.compile(r"(.+?)(?:[;:]\s|\.\s+(?=[A-Z-])|\.?$)", re.DOTALL)
"""The first sentence of a description, or its part before a semicolon."""
_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")
_METAVARS = {bool: None, int: "N", float: "X", str: "TEXT", Path: "PATH"}


def _parameter(
    key: str,
    kind: Any,
    default: Any,
    text: str,
    *,
    nullable: bool,
    name: str | None = None,
    short: str | None = None,
    metavar: str | None = None,
    panel: str | None = None,
    min: float | None = None,
    prefix: str = "",
    argument: bool = False,
    file: bool = False,
    found: bool | Callable[[str], bool] = False,
) -> inspect.Parameter:
    """The parameter for typer that is made of a field; the arguments from `name` on are the field's metadata.

    nullable: whether "none" is a value, beside a default that is not. name: the option, if it differs from the field's
    name. short: the one-letter option, such as -m. metavar: the placeholder of the value in the help. panel: the panel
    of the help that lists the option. min: the smallest value. prefix: that of a record's options. argument: whether it
    is a positional argument. file: whether only the configuration file and Python have it; such an option is hidden.
    found: whether a file that only lies in the folder may set it, to a number, true, false or a word; or the function
    that says which texts it may be set to.

    The field of a record gives its metadata to all of the record's options. It may name in `only` the fields that
    become options. A field that only Python has is marked `python_only`.
    """
    parse = getattr(kind, "parse", path if kind in (Path, list[Path]) else None)
    parse = (lambda text: None if str(text).lower() == "none" else kind(text)) if nullable else parse
    text = text.replace("[", r"\[")
    if argument:
        info: Any = typer.Argument(help=text, show_default=False, parser=parse)
    else:
        option = name or f"--{prefix}{key.rpartition(INNER)[2]}".replace("_", "-")
        info = typer.Option(
            *filter(None, (option, short)),
            help=text,
            metavar=metavar or _METAVARS.get(kind),
            rich_help_panel=panel,
            hidden=file,
            min=min,
            parser=parse,
            autocompletion=_completion(_COMPLETIONS[key]) if key in _COMPLETIONS else None,
        )
    hint = kind if default is not None or kind is bool else kind | None
    default = inspect.Parameter.empty if default is MISSING else default
    annotation = Annotated[hint, info, is_word if found is True else found] if found else Annotated[hint, info]
    return inspect.Parameter(key, _KEYWORD, default=default, annotation=annotation)


def path(text: Any) -> Path:
    """The value of an option that is a path.

    An empty one is refused, as "$DOCS" gives it where DOCS is unset: pathlib would take it for the current folder. A ~
    that no shell expanded, as in --trace=~/t.jsonl, is the user's home. Raises typer.BadParameter, ConfigurationError.
    """
    if not str(text).strip():
        raise typer.BadParameter("a path is empty; the current folder is .")
    return expanded(text)


def _models() -> list[str]:
    return [f"gguf/{name}" for name in ALIASES] + [f"{name}/" for name in catalogue.providers()]


_COMPLETIONS: dict[str, Callable[[], Iterable[str]]] = {
    **dict.fromkeys(("method", "methods"), catalogue.methods),
    **dict.fromkeys(("model", "judge", "judges", "rewriter"), _models),
    "task": lambda: import_module("reground.evaluation.tasks").task_names(),
    "form": lambda: FORMS,
}
"""By key, what a shell offers for a value that has begun."""


def _completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        """The names that continue the last of several between commas, with those before it."""
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


class Command(TyperCommand):
    """A command with two helps, some of whose options only the configuration file has; these are hidden."""

    @property
    def in_file(self) -> set[str]:
        """The options that only the configuration file has."""
        return {option for each in self.params if getattr(each, "hidden", False) for option in each.opts}

    def make_parser(self, ctx: Any) -> Any:
        """The parser of the command line, which does not know the options of the configuration file alone."""
        params = self.params
        self.params = [each for each in params if not getattr(each, "hidden", False)]
        try:
            return super().make_parser(ctx)
        finally:
            self.params = params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say so where a second value for what is searched takes the place of the first."""
        given = self.make_parser(ctx).parse_args(list(args))[2]
        for each in self.params:
            if each.name in (*_SEARCHED, "where") and not getattr(each, "multiple", False) and given.count(each) > 1:
                note(f"{each.opts[0]} was given {given.count(each)} times: the last one counts")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the everyday help, or all of it where `--help-all` asked for it."""
        names = getattr(self.callback, "everyday", ())
        if not names or ctx.meta.get(_ALL):
            super().format_help(ctx, formatter)
            return
        parameters = {each.name: each for each in self.params}
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name in (*names, _ALL):
            table.add_row(*_row(parameters[name]))
        text = inspect.cleandoc(self.help or "")
        consoles()[0].print(Text(ctx.get_usage()), Text(f"\n{text}\n"), table, sep="\n")


def _row(parameter: Any) -> tuple[Text, Text]:
    """An option's names and the placeholder of its value; the first sentence of its description, and its default."""
    if isinstance(parameter, TyperArgument):
        names = Text(str(parameter.name).upper(), style="bold cyan")
    else:
        names = Text(", ".join(reversed(parameter.opts)), style="bold cyan")
        if not parameter.is_flag:
            names.append(f" {parameter.metavar or 'NAME'}", style="not bold yellow")
    sentence = _SENTENCE.match(parameter.help or "")
    default = "" if parameter.default in (None, False, "", [], ...) else f" [{parameter.default}]"
    return names, Text(f"{sentence.group(1) if sentence else ''}{default}".replace(r"\[", "["))


def _show_all(context: typer.Context, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        say(context.get_help())
        context.exit()


_HELP_ALL = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options, in full.")
]


def flattened(*everyday: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the dataclass parameters of a command by their fields, each an option or an argument.

    everyday: the keys of the options that --help shows, in their order, such as "budget__tokens"; without them, all.
    """
    return partial(_flattened, everyday=everyday)


def _flattened(command: Callable[..., None], everyday: Sequence[str]) -> Callable[..., None]:
    hints = typing.get_type_hints(command, include_extras=True)
    classes = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    own = inspect.signature(command).parameters
    parameters = [inspect.Parameter("context", _KEYWORD, annotation=typer.Context)]
    for name, parameter in own.items():
        if name in classes:
            options = parameters_of(classes[name])
            parameters += sorted(options, key=lambda each: each.default is not inspect.Parameter.empty)
        elif name != "context":
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=hints[name]))
    if everyday:
        parameters.append(inspect.Parameter(_ALL, _KEYWORD, default=False, annotation=_HELP_ALL))

    def filled(context: typer.Context, **values: Any) -> None:
        values.pop(_ALL, None)
        for name, value in values.items():
            if isinstance(value, int | float) and not abs(value) <= MOST_COUNT:  # nor is nan
                raise ConfigurationError(f"{name.replace(INNER, '.')} must be a finite number of at most {MOST_COUNT}")
        sources = {name: str(getattr(context.get_parameter_source(name), "name", "")) for name in _SEARCHED}
        if "COMMANDLINE" in sources.values():  # it says what is searched, instead of what a file says
            values |= {name: None for name, source in sources.items() if source == "DEFAULT_MAP"}
        records = {name: _build(cls, values, context.meta.get(SETTINGS, {})) for name, cls in classes.items()}
        command(**records, **values, **({"context": context} if "context" in own else {}))

    result: Any = filled
    result.__name__, result.__doc__ = command.__name__, _LINE_BREAK.sub(" ", inspect.getdoc(command) or "")
    result.__annotations__ = {each.name: each.annotation for each in parameters}
    result.__signature__ = inspect.Signature(parameters)
    result.everyday = everyday
    infos = [(each.name, info) for each in parameters for info in getattr(each.annotation, "__metadata__", ())]
    names = Counter(name for _, info in infos for name in getattr(info, "param_decls", None) or ())
    if twice := [name for name, count in names.items() if count > 1]:
        raise ConfigurationError(f"{origin(command)}: two options of {command.__name__} are called {twice[0]}")
    result.in_file = {name for name, info in infos if getattr(info, "hidden", False)}
    result.marks = {name: info for name, info in infos if inspect.isroutine(info)}
    return result  # type: ignore[no-any-return]


def parameters_of(cls: Any, outer: str = "", only: Iterable[str] = (), **shared: Any) -> Iterator[inspect.Parameter]:
    """The parameters for the options of a dataclass or a pydantic model.

    outer: the beginning of their keys, and only and shared: the metadata of the field, if a field holds it as a record.
    """
    texts, hints = meanings(cls), _hints(cls)
    for name in field_names(cls):
        look, members = shared | _metadata(cls, name), _members(hints[name])
        if look.pop("python_only", False) or (only and name not in only):
            continue
        if (record := record_in(hints[name])) is not None:
            yield from parameters_of(record, name + INNER, **look)
        elif (kind := _kind(members)) is not None:
            default = _default(cls, name, kind)
            nullable = kind in (int, float, str) and NoneType in members and default is not None
            where = f"{origin(cls)}: the field {name}"
            if name not in texts:
                raise ConfigurationError(f"{where} has no description: write a text under it")
            try:
                yield _parameter(outer + name, kind, default, texts[name], nullable=nullable, **look)
            except TypeError as error:
                raise ConfigurationError(f"{where}, its metadata: {error}") from None


def _metadata(cls: Any, name: str) -> dict[str, Any]:
    """A field's metadata, merged with the metadata of the fields that it overrides."""
    if hasattr(cls, "model_fields"):
        return {**(cls.model_fields[name].json_schema_extra or {})}
    merged: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if (field := vars(base).get("__dataclass_fields__", {}).get(name)) is not None:
            merged |= field.metadata
    return merged


def _default(cls: Any, name: str, kind: Any) -> Any:
    if hasattr(cls, "model_fields"):
        return cls.model_fields[name].default
    field = cls.__dataclass_fields__[name]
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default or None if kind == list[str] else default


_hints = cache(typing.get_type_hints)


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)


def record_in(hint: Any) -> Any:
    """The record class in a type; None if there is none. A class that parses text is not a record."""
    for each in _members(hint):
        if hasattr(each, "model_fields") or (dataclasses.is_dataclass(each) and not hasattr(each, "parse")):
            return each
    return None


def _kind(members: Iterable[Any]) -> Any:
    """The first member of a type that the command line can read; None if only Python can give a value."""
    for each in members:
        if each in _SIMPLE or typing.get_origin(each) in (typing.Literal, list) or hasattr(each, "parse"):
            return each
        if typing.get_origin(each) is Mapping:
            return list[str]
    return None


def _build(cls: Any, values: dict[str, Any], settings: Mapping[str, object]) -> Any:
    """Build the dataclass from the values of its options, and remove these from `values`."""
    arguments: dict[str, Any] = {}
    for name in field_names(cls):
        inner = {key.partition(INNER)[2]: values.pop(key) for key in list(values) if key.startswith(name + INNER)}
        if inner:
            arguments[name] = from_mapping(record_in(_hints(cls)[name]), inner, name)
        elif name in values:
            value = values.pop(name)
            arguments[name] = parse_settings(settings, value) if name == SETTINGS else value
    return cls(**arguments)


SETTINGS = "settings"
"""The table of the method's settings, and the name of the parameter behind --set."""
DEFAULT = "reground.toml"
INNER = "__"
"""Separates, in a parameter's name, the name of a table from the name of a key in it."""
_SEARCHED = ("corpus", "web", "retriever")
_NO_KEYS = {"config", "set", "help", "help_all", "version", "install_completion", "show_completion"}


def _heed(context: typer.Context, path: Path | None) -> Path | None:
    """Use the values of files for options that are not given: of that which is named or lies here, then of the user's.

    A top-level key overrides the key in a table.
    """
    if context.resilient_parsing:
        return path
    own, here, settings, values = config_file(), Path(DEFAULT), dict[str, Any](), dict[str, Any]()
    for file in (own, path or here):  # what stands in the second counts for more
        config = read_config(file) if file == path or file.is_file() else {}
        keys, commands = config_keys(context.command), [context.command]
        if not config.keys() <= keys.keys():  # they may be those of other commands, which are imported only for this
            keys, commands = config_keys(context.find_root().command), [*commands, context.find_root().command]
        check_config(config, keys)
        if file == here and path is None:
            for refused in not_taken(config, *commands):
                raise ConfigurationError(refused)
        for key, parameter in _options(context.command):
            table, _, inner = parameter.name.partition(INNER)
            if key in config and key not in _NO_KEYS:
                values[parameter.name] = _fit(context, config[key], parameter, f"{key} in {file}")
            elif inner in config.get(table, {}):
                where = f"{table}.{inner} in {file}"
                values[parameter.name] = _fit(context, config[table][inner], parameter, where)
        settings |= config.get(SETTINGS, {})
    context.meta[SETTINGS] = settings
    context.default_map = {**(context.default_map or {}), **values}
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file with the same names as the options; reground.toml here if there is one. "
        "What it leaves out may stand in your own (`reground config`).",
        is_eager=True,
        callback=_heed,
    ),
]


def _toml(text: str) -> dict[str, Any]:
    """What TOML says. Raises ValueError or RecursionError, also where tables lie too deep to be written again, or a
    number has too many digits."""
    data = tomllib.loads(text)
    json.dumps(deepcopy(data), default=str)
    return data


def read_config(path: Path) -> dict[str, Any]:
    """The content of a configuration file. Raises DataError."""
    try:
        if regular(path).stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        config = _toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"cannot read the configuration: {error.strerror}", path=path) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not a TOML file: {error}", path=path) from None
    if isinstance(extra := config.get("extra_body"), dict):  # as the option has it
        config["extra_body"] = json.dumps(extra, default=str)
    return config


def config_keys(root: Any) -> dict[str, set[str]]:
    """The keys that a configuration file may have, with the keys in them if they are tables: the options of every
    command that reads a file."""
    keys = {SETTINGS: set[str]()}
    for command in _readers(root):
        for key, parameter in _options(command):
            if key not in _NO_KEYS:
                keys.setdefault(key, set())
            table, _, inner = parameter.name.partition(INNER)
            if inner:
                keys.setdefault(table, set()).add(inner)
    return keys


def _readers(root: Any) -> Iterator[Any]:
    """A command and those below it, as far as they read a configuration file."""
    if any(key == "config" for key, _ in _options(root)):
        yield root
    for command in getattr(root, "commands", {}).values():
        yield from _readers(command)


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """The options of a command, as keys of a configuration, with their parameters."""
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("--"):
                yield option[2:].replace("-", "_"), parameter


def check_config(config: Mapping[str, Any], keys: Mapping[str, set[str]]) -> None:
    """Refuse a configuration with keys that no command reads. Raises ConfigurationError."""
    for key, value in config.items():
        if key not in keys:
            raise ConfigurationError(f"the configuration has an unknown key {key!r}; {did_you_mean(key, keys)}")
        is_table = bool(keys[key]) or key == SETTINGS
        if is_table != isinstance(value, dict):
            what = f"is a table: write [{key}] on a line of its own" if is_table else "is no table"
            raise ConfigurationError(f"{key} in the configuration {what}")
        for inner in value if keys[key] else ():
            if inner not in keys[key]:
                near = did_you_mean(inner, keys[key])
                raise ConfigurationError(f"[{key}] in the configuration has an unknown key {inner!r}; {near}")


def not_taken(config: Mapping[str, Any], *commands: Any) -> Iterator[str]:
    """What a file that only lies in the current folder sets without the mark `found`, or to a text that does not fit.

    A key that several of the commands have is judged by the first.
    """
    marks = {name: fits for command in reversed(commands) for name, fits in _marks(command).items()}
    for key, value in config.items():
        is_table = isinstance(value, Mapping) and key != SETTINGS
        for name, each in [(key + INNER + inner, value[inner]) for inner in value] if is_table else [(key, value)]:
            fits = marks.get(name)
            for place, text in _leaves(each, name.replace(INNER, ".")):
                if fits is None or not fits(text):
                    message = f"{place} = {text!r:.80} is not taken from a {DEFAULT} that only lies here"
                    yield f"{message}: if the file is yours, pass --config {DEFAULT}"


def _marks(root: Any) -> dict[str, Any]:
    """By key, and by TABLE__KEY, which texts a file that was only found may give; None for a key without the mark."""
    marks: dict[str, Any] = {}
    for command in _readers(root):
        own = getattr(command.callback, "marks", {})
        for key, parameter in _options(command):
            for name in (key, parameter.name):
                marks[name] = marks.get(name) or own.get(parameter.name)
    return marks


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every value at any depth, as text, with the keys that lead to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, place)
    else:
        yield place, str(value)


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


def check_value(root: Any, key: str, value: Any) -> None:
    """Refuse a value that fits no command's option of this name. Raises ConfigurationError."""
    refused: list[ConfigurationError] = []
    for command in _readers(root):
        for parameter in (parameter for name, parameter in _options(command) if name == key):
            try:
                _fit(typer.Context(command), value, parameter, key)
            except ConfigurationError as error:
                refused.append(error)
            else:
                return
    if refused:
        raise refused[0]


def parse_settings(config: Mapping[str, object], items: list[str] | None) -> dict[str, object]:
    """A method's settings: [settings] of the configuration, overridden by --set KEY=VALUE."""
    settings = dict(config)
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"--set takes KEY=VALUE, got {item!r}")
        settings[key.strip()] = read_value(value)
    return settings


def read_value(value: str) -> object:
    """Read a value as TOML (3, 0.5, true, [1, 2], {draft = "..."}); return the text itself if it is not TOML."""
    try:
        return _toml(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def setting_text(value: object) -> str:
    """Write a setting so that --set can read it: a plain word unchanged, None as none, anything else as TOML."""
    if isinstance(value, str) and value == value.strip() == read_value(value) and value.lower() not in {"none", "null"}:
        return value
    return "none" if value is None else json.dumps(value)
