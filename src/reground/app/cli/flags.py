"""Turns a command that takes dataclasses into a command whose options are their fields.

A field's name gives the option and the key, its type says how to read a value, and its description is the help. A
field that holds a record (`budget`, `model_options`) gives one option for each field of the record. `--help` lists a
command's everyday options with the first sentence of each description, `--help-all` all options in full.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

from reground.app.cli._common import consoles
from reground.app.cli.config import SETTINGS, parse_settings
from reground.app.signature import field_names, from_mapping, meanings
from reground.core.paths import expanded

if TYPE_CHECKING:
    from rich.text import Text

INNER = "__"
"""Separates, in a parameter's name, the name of a field from the name of a field of its record."""
_ALL = "help_all"
_SIMPLE = (bool, int, float, Path, str)


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
        look, more = self.look, {}
        metavar = look.metavar or (None if look.argument else _METAVARS.get(self.type))
        if (parse := getattr(self.type, "parse", None)) is not None:
            more["parser"] = parse
        if self.nullable:
            more["parser"] = _or_none(self.type)
        if self.type is Path:
            more["parser"] = path
        hint = self.type if self.default is not None or self.type is bool else self.type | None
        text = self.help.replace("[", r"\[")
        if (complete := _COMPLETIONS.get(self.key)) is not None:
            more["autocompletion"] = complete
        if look.argument:
            info: Any = typer.Argument(help=text, show_default=False, **more)
        else:
            name = look.name or f"--{look.prefix}{self.key.rpartition(INNER)[2]}".replace("_", "-")
            if look.min is not None and self.type in (int, float):
                more["min"] = look.min
            info = typer.Option(
                *filter(None, (name, look.short)),
                help=text,
                metavar=metavar,
                rich_help_panel=look.panel,
                hidden=look.file,
                **more,
            )
        default = self.default if self.optional else inspect.Parameter.empty
        return inspect.Parameter(self.key, _KEYWORD, default=default, annotation=Annotated[hint, info])


def _complete_method(incomplete: str) -> list[str]:
    from reground.app import catalogue

    return _beginning(incomplete, catalogue.methods())


def _complete_model(incomplete: str) -> list[str]:
    from reground.app import catalogue
    from reground.models.pull import ALIASES

    return _beginning(incomplete, [f"gguf/{name}" for name in ALIASES] + [f"{name}/" for name in catalogue.providers()])


def _complete_task(incomplete: str) -> list[str]:
    from reground.evaluation.tasks import task_names

    return _beginning(incomplete, task_names())


def _complete_form(incomplete: str) -> list[str]:
    from reground.core.answers import FORMS

    return _beginning(incomplete, FORMS)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that continue the last of several between commas, with those before it."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


_COMPLETIONS = {
    "method": _complete_method,
    "methods": _complete_method,
    "model": _complete_model,
    "judge": _complete_model,
    "judges": _complete_model,
    "rewriter": _complete_model,
    "task": _complete_task,
    "form": _complete_form,
}
"""By key, what a shell offers for a value that has begun."""


def _or_none(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parse(text: Any) -> Any:
        return None if str(text).lower() == "none" else kind(text)

    return parse


def path(text: Any) -> Path:
    """The value of an option that is a path. Refused is an empty one, as of "$DOCS" where DOCS is unset: pathlib takes
    it for the current folder. A ~ that no shell expanded, as in --trace=~/t.jsonl and in a configuration file, is the
    user's home. Raises typer.BadParameter, ConfigurationError."""
    if not str(text).strip():
        raise typer.BadParameter("a path is empty; the current folder is .")
    return expanded(text)


_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SENTENCE = re.compile(r"(.+?)(?:[;:]\s|\.\s+(?=[A-Z-])|\.?$)", re.DOTALL)
"""The first sentence of a description, or its part before a semicolon."""
_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")
_METAVARS = {bool: None, int: "N", float: "X", str: "TEXT", Path: "PATH"}


class Command(TyperCommand):
    """A command with two helps, some of whose options only the configuration file has."""

    def make_parser(self, ctx: Any) -> Any:
        """The parser of the command line, which does not know the options of the configuration file alone."""
        hidden = getattr(self.callback, "in_file", ())
        with self._showing([each for each in self.params if each.name not in hidden]):
            return super().make_parser(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the everyday help, or all of it where `show_all` asked for it."""
        everyday: Sequence[str] = getattr(self.callback, "everyday", ())
        if not everyday or ctx.meta.get(_ALL):
            super().format_help(ctx, formatter)
            return
        from rich.table import Table
        from rich.text import Text

        console, _ = consoles()
        named = {each.name: each for each in self.params}
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name in (*everyday, _ALL):
            table.add_row(_usage(named[name]), _short(named[name]))
        console.print(Text(ctx.get_usage()), Text(f"\n{inspect.cleandoc(self.help or '')}\n"), table, sep="\n")

    @contextmanager
    def _showing(self, parameters: list[Any]) -> Iterator[None]:
        everything, self.params = self.params, parameters
        try:
            yield
        finally:
            self.params = everything


def _usage(parameter: Any) -> Text:
    """An option's names and the placeholder of its value."""
    from rich.text import Text

    if isinstance(parameter, TyperArgument):
        return Text(str(parameter.name).upper(), style="bold cyan")
    names = Text(", ".join(reversed(parameter.opts)), style="bold cyan")
    return names if parameter.is_flag else names.append(f" {parameter.metavar or 'NAME'}", style="not bold yellow")


def _short(parameter: Any) -> Text:
    """The first sentence of an option's description, and its default."""
    from rich.text import Text

    sentence = _SENTENCE.match(parameter.help or "")
    default = "" if parameter.default in (None, False, "", [], ...) else f" [{parameter.default}]"
    return Text(f"{sentence.group(1) if sentence else ''}{default}".replace(r"\[", "["))


def everyday(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let --help show only these fields of a command, in this order; they are keys, such as "budget__tokens"."""

    def marked(command: Callable[..., None]) -> Callable[..., None]:
        command.everyday = names  # type: ignore[attr-defined]
        option = typer.Option("--help-all", is_eager=True, callback=show_all, help="Show all options, in full.")
        signature: Any = command.__signature__  # type: ignore[attr-defined]
        more = inspect.Parameter(_ALL, _KEYWORD, default=False, annotation=Annotated[bool, option])
        command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), more])  # type: ignore[attr-defined]
        command.__annotations__[_ALL] = more.annotation
        return command

    return marked


def show_all(context: typer.Context, wanted: bool) -> None:
    """Print the whole help and end."""
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        typer.echo(context.get_help(), color=context.color)
        context.exit()


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the dataclass parameters of a command by their fields, each an option or an argument."""
    hints = typing.get_type_hints(command, include_extras=True)
    orders = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    own = inspect.signature(command).parameters
    parameters = [inspect.Parameter("context", _KEYWORD, annotation=typer.Context)]
    in_file: set[str] = set()
    for name, parameter in own.items():
        if name in orders:
            fields = sorted(parts(orders[name]), key=lambda part: part.optional)
            parameters += [part.parameter() for part in fields]
            in_file |= {part.key for part in fields if part.look.file}
        elif name != "context":
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=hints[name]))

    def filled(context: typer.Context, **given: Any) -> None:
        given.pop(_ALL, None)
        made = {name: _made(order, given, context.meta.get(SETTINGS, {})) for name, order in orders.items()}
        made |= {"context": context} if "context" in own else {}
        command(**made, **given)

    filled.__name__, filled.__doc__ = command.__name__, _LINE_BREAK.sub(" ", inspect.getdoc(command) or "")
    filled.__annotations__ = {each.name: each.annotation for each in parameters}
    filled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    filled.in_file = frozenset(in_file)  # type: ignore[attr-defined]
    return filled


def parts(order: Any, prefix: str = "", outer: Look | None = None) -> Iterator[Part]:
    """The options of a dataclass or a pydantic model."""
    outer, words = outer or Look(), meanings(order)
    for name in field_names(order):
        look = _look(order, name)
        if look.python_only or (outer.only and name not in outer.only):
            continue
        hint = _hint(order, name)
        inner, kind = record_in(hint), _kind(hint)
        if inner is not None:
            yield from parts(inner, name + INNER, look)
        elif kind is not None:
            panel, file = look.panel or outer.panel, look.file or outer.file
            look = dataclasses.replace(look, prefix=outer.prefix, panel=panel, file=file)
            if outer.min is not None and kind is int:
                look = dataclasses.replace(look, min=outer.min)
            default = _default(order, name, kind)
            nullable = kind in (int, float, str) and type(None) in _members(hint) and default is not None
            yield Part(prefix + name, kind, default, words[name], look, nullable)


def _look(cls: Any, name: str) -> Look:
    """A field's metadata, merged with the metadata of the fields that it overrides; for pydantic, its lower bound."""
    limits = cls.model_fields[name].metadata if hasattr(cls, "model_fields") else ()
    merged: dict[str, Any] = {"min": next((limit.ge for limit in limits if hasattr(limit, "ge")), None)}
    if hasattr(cls, "model_fields"):
        merged |= cls.model_fields[name].json_schema_extra or {}
    for base in reversed(cls.__mro__):
        if (found := base.__dict__.get("__dataclass_fields__", {}).get(name)) is not None:
            merged |= found.metadata
    return Look(**merged)


def _default(cls: Any, name: str, kind: Any) -> Any:
    if not dataclasses.is_dataclass(cls):
        return cls.model_fields[name].default
    found = cls.__dataclass_fields__[name]
    default = found.default if found.default_factory is dataclasses.MISSING else found.default_factory()
    return default or None if kind == list[str] else default


def _hint(cls: type, name: str) -> Any:
    """A field's type. It resolves only the names in this field, so that help needs no import for the others."""
    return _own_hint(next(base for base in cls.__mro__ if name in inspect.get_annotations(base)), name)


@cache
def _own_hint(cls: type, name: str) -> Any:
    only = SimpleNamespace(__annotations__={name: inspect.get_annotations(cls)[name]})
    return typing.get_type_hints(only, vars(sys.modules[cls.__module__]))[name]


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
        if each in _SIMPLE or typing.get_origin(each) is typing.Literal or hasattr(each, "parse"):
            return each
        if typing.get_origin(each) is Mapping:
            return list[str]
        if typing.get_origin(each) is list:
            return each
    return None


def _made(order: Any, given: dict[str, Any], settings: Mapping[str, object]) -> Any:
    """Build the order from the given values, and remove these from `given`."""
    made: dict[str, Any] = {}
    for name in field_names(order):
        inner = {key: given.pop(key) for key in list(given) if key.startswith(name + INNER)}
        if inner:
            values = {key.partition(INNER)[2]: value for key, value in inner.items()}
            made[name] = from_mapping(record_in(_hint(order, name)), values, name)
        elif name in given:
            value = given.pop(name)
            made[name] = parse_settings(settings, value) if name == SETTINGS else value
    return order(**made)
