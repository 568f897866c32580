"""Turns a command that takes dataclasses into a command whose options are their fields.

A field's name gives the option and the key, its type says how to read a value, and its description is the help. A
field that holds a record (`budget`, `model_options`) gives one option for each field of the record. `--help` lists a
command's everyday options with the first sentence of each description, `--help-all` all options in full.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperArgument, TyperCommand

from reground.app import catalogue
from reground.app.cli.config import SETTINGS, parse_settings
from reground.app.cli.console import consoles, say
from reground.app.signature import field_names, from_mapping, meanings
from reground.core.answers import FORMS
from reground.core.paths import expanded

INNER = "__"
"""Separates, in a parameter's name, the name of a field from the name of a field of its record."""
_ALL = "help_all"
_SIMPLE = (bool, int, float, Path, str)
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SENTENCE = re.compile(r"(.+?)(?:[;:]\s|\.\s+(?=[A-Z-])|\.?$)", re.DOTALL)
"""The first sentence of a description, or its part before a semicolon."""
_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")
_METAVARS = {bool: None, int: "N", float: "X", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True)
class Look:
    """A field's metadata: what the command line needs beyond its name, type and description."""

    name: str | None = None
    """The option, if it differs from the field's name."""
    short: str | None = None
    """The one-letter option, such as -m."""
    metavar: str | None = None
    """The placeholder of the value in the help."""
    panel: str | None = None
    """The panel of the help that lists the option."""
    min: float | None = None
    """The smallest value; for a record, the smallest value of its whole numbers."""
    prefix: str = ""
    """The prefix of a record's options."""
    only: tuple[str, ...] = ()
    """The fields of a record that become options; empty means all."""
    argument: bool = False
    """Whether it is a positional argument."""
    file: bool = False
    """Whether only the configuration file and Python have it."""
    python_only: bool = False
    """Whether only Python has it."""


@dataclass(frozen=True)
class Part:
    """One option, and its parameter for typer. nullable: whether "none" is a value, beside a default that is not."""

    key: str
    type: Any
    default: Any
    help: str
    look: Look
    nullable: bool = False

    @property
    def optional(self) -> bool:
        """Whether the option has a default."""
        return self.default is not dataclasses.MISSING

    def parameter(self) -> inspect.Parameter:
        """The parameter for typer."""
        look = self.look
        more: dict[str, Any] = {}
        parse = getattr(self.type, "parse", path if self.type is Path else None)
        if self.nullable:
            parse = _or_none(self.type)
        if parse is not None:
            more["parser"] = parse
        if self.key in _COMPLETIONS:
            more["autocompletion"] = _completion(_COMPLETIONS[self.key])
        text = self.help.replace("[", r"\[")
        if look.argument:
            info: Any = typer.Argument(help=text, show_default=False, **more)
        else:
            name = look.name or f"--{look.prefix}{self.key.rpartition(INNER)[2]}".replace("_", "-")
            if look.min is not None and self.type in (int, float):
                more["min"] = look.min
            info = typer.Option(
                *filter(None, (name, look.short)),
                help=text,
                metavar=look.metavar or _METAVARS.get(self.type),
                rich_help_panel=look.panel,
                hidden=look.file,
                **more,
            )
        hint = self.type if self.default is not None or self.type is bool else self.type | None
        default = self.default if self.optional else inspect.Parameter.empty
        return inspect.Parameter(self.key, _KEYWORD, default=default, annotation=Annotated[hint, info])


def _or_none(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda text: None if str(text).lower() == "none" else kind(text)


def path(text: Any) -> Path:
    """The value of an option that is a path.

    An empty one is refused, as "$DOCS" gives it where DOCS is unset: pathlib would take it for the current folder. A ~
    that no shell expanded, as in --trace=~/t.jsonl, is the user's home. Raises typer.BadParameter, ConfigurationError.
    """
    if not str(text).strip():
        raise typer.BadParameter("a path is empty; the current folder is .")
    return expanded(text)


def _models() -> list[str]:
    from reground.models.pull import ALIASES

    return [f"gguf/{name}" for name in ALIASES] + [f"{name}/" for name in catalogue.providers()]


def _tasks() -> list[str]:
    from reground.evaluation.tasks import task_names

    return [*task_names()]


_COMPLETIONS: dict[str, Callable[[], Iterable[str]]] = {
    **dict.fromkeys(("method", "methods"), catalogue.methods),
    **dict.fromkeys(("model", "judge", "judges", "rewriter"), _models),
    "task": _tasks,
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
    """A command with two helps, some of whose options only the configuration file has."""

    @property
    def in_file(self) -> set[str]:
        """The options that only the configuration file has."""
        return {option for each in self.params for option in each.opts} - {
            option for each in self._on_the_line() for option in each.opts
        }

    def _on_the_line(self) -> list[Any]:
        keys = getattr(self.callback, "in_file", ())
        return [each for each in self.params if each.name not in keys]

    def make_parser(self, ctx: Any) -> Any:
        """The parser of the command line, which does not know the options of the configuration file alone."""
        params, self.params = self.params, self._on_the_line()
        try:
            return super().make_parser(ctx)
        finally:
            self.params = params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the everyday help, or all of it where `_show_all` asked for it."""
        names = getattr(self.callback, "everyday", ())
        if not names or ctx.meta.get(_ALL):
            super().format_help(ctx, formatter)
            return
        parameters = {each.name: each for each in self.params}
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name in (*names, _ALL):
            table.add_row(_usage(parameters[name]), _short(parameters[name]))
        text = inspect.cleandoc(self.help or "")
        consoles()[0].print(Text(ctx.get_usage()), Text(f"\n{text}\n"), table, sep="\n")


def _usage(parameter: Any) -> Text:
    """An option's names and the placeholder of its value."""
    if isinstance(parameter, TyperArgument):
        return Text(str(parameter.name).upper(), style="bold cyan")
    names = Text(", ".join(reversed(parameter.opts)), style="bold cyan")
    return names if parameter.is_flag else names.append(f" {parameter.metavar or 'NAME'}", style="not bold yellow")


def _short(parameter: Any) -> Text:
    """The first sentence of an option's description, and its default."""
    sentence = _SENTENCE.match(parameter.help or "")
    default = "" if parameter.default in (None, False, "", [], ...) else f" [{parameter.default}]"
    return Text(f"{sentence.group(1) if sentence else ''}{default}".replace(r"\[", "["))


def everyday(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let --help show only these fields of a command, in this order; they are keys, such as "budget__tokens"."""

    def marked(command: Any) -> Callable[..., None]:
        option = typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options, in full.")
        more = inspect.Parameter(_ALL, _KEYWORD, default=False, annotation=Annotated[bool, option])
        signature = command.__signature__
        command.everyday = names
        command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), more])
        command.__annotations__[_ALL] = more.annotation
        return command  # type: ignore[no-any-return]

    return marked


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        say(context.get_help())
        context.exit()


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the dataclass parameters of a command by their fields, each an option or an argument."""
    hints = typing.get_type_hints(command, include_extras=True)
    classes = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    own = inspect.signature(command).parameters
    parameters = [inspect.Parameter("context", _KEYWORD, annotation=typer.Context)]
    in_file: set[str] = set()
    for name, parameter in own.items():
        if name in classes:
            fields = sorted(parts(classes[name]), key=lambda part: part.optional)
            parameters += [part.parameter() for part in fields]
            in_file |= {part.key for part in fields if part.look.file}
        elif name != "context":
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=hints[name]))

    def filled(context: typer.Context, **values: Any) -> None:
        values.pop(_ALL, None)
        made = {name: _made(cls, values, context.meta.get(SETTINGS, {})) for name, cls in classes.items()}
        made |= {"context": context} if "context" in own else {}
        command(**made, **values)

    result: Any = filled
    result.__name__, result.__doc__ = command.__name__, _LINE_BREAK.sub(" ", inspect.getdoc(command) or "")
    result.__annotations__ = {each.name: each.annotation for each in parameters}
    result.__signature__ = inspect.Signature(parameters)
    result.in_file = frozenset(in_file)
    return result  # type: ignore[no-any-return]


def parts(cls: Any, prefix: str = "", outer: Look | None = None) -> Iterator[Part]:
    """The options of a dataclass or a pydantic model. outer: the look of the field that holds it as a record."""
    outer, texts, hints = outer or Look(), meanings(cls), _hints(cls)
    for name in field_names(cls):
        look, hint = _look(cls, name), hints[name]
        if look.python_only or (outer.only and name not in outer.only):
            continue
        record, kind = record_in(hint), _kind(hint)
        if record is not None:
            yield from parts(record, name + INNER, look)
        elif kind is not None:
            least = outer.min if outer.min is not None and kind is int else look.min
            look = dataclasses.replace(
                look, prefix=outer.prefix, panel=look.panel or outer.panel, file=look.file or outer.file, min=least
            )
            default = _default(cls, name, kind)
            nullable = kind in (int, float, str) and type(None) in _members(hint) and default is not None
            yield Part(prefix + name, kind, default, texts[name], look, nullable)


def _look(cls: Any, name: str) -> Look:
    """A field's metadata, merged with the metadata of the fields that it overrides; for pydantic, its lower bound."""
    if hasattr(cls, "model_fields"):
        info = cls.model_fields[name]
        least = next((limit.ge for limit in info.metadata if hasattr(limit, "ge")), None)
        return Look(**{"min": least, **(info.json_schema_extra or {})})
    merged: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if (field := base.__dict__.get("__dataclass_fields__", {}).get(name)) is not None:
            merged |= field.metadata
    return Look(**merged)


def _default(cls: Any, name: str, kind: Any) -> Any:
    if hasattr(cls, "model_fields"):
        return cls.model_fields[name].default
    field = cls.__dataclass_fields__[name]
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return default or None if kind == list[str] else default


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)


def record_in(hint: Any) -> Any:
    """The record class in a type; None if there is none. A class that parses text is not a record."""
    for each in _members(hint):
        if hasattr(each, "model_fields") or (dataclasses.is_dataclass(each) and not hasattr(each, "parse")):
            return each
    return None


def _kind(hint: Any) -> Any:
    """The first member of a type that the command line can read; None if only Python can give a value."""
    for each in _members(hint):
        if each in _SIMPLE or typing.get_origin(each) in (typing.Literal, list) or hasattr(each, "parse"):
            return each
        if typing.get_origin(each) is Mapping:
            return list[str]
    return None


def _made(cls: Any, values: dict[str, Any], settings: Mapping[str, object]) -> Any:
    """Build the dataclass from the values of its options, and remove these from `values`."""
    made: dict[str, Any] = {}
    for name in field_names(cls):
        inner = {key.partition(INNER)[2]: values.pop(key) for key in list(values) if key.startswith(name + INNER)}
        if inner:
            made[name] = from_mapping(record_in(_hints(cls)[name]), inner, name)
        elif name in values:
            value = values.pop(name)
            made[name] = parse_settings(settings, value) if name == SETTINGS else value
    return cls(**made)
