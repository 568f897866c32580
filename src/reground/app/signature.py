"""What a function of options takes: the meaning of each field, keywords in place of a dataclass, and conversions.

The description of a field is read from the source; help, listings and the reference all use it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from reground.core.answers import FORMS, AnswerForm
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.language import LanguageModel

if TYPE_CHECKING:
    from reground.models.options import ModelOptions

P = ParamSpec("P")
T = TypeVar("T")
Options = TypeVar("Options")


@cache
def meanings(cls: type) -> dict[str, str]:
    """The description of each field of a dataclass or a pydantic model, in one line. Fields without one are left out.

    A description is the text under the field, as in `reground.app.options`, or the entry `name: text` in the
    docstring of the class, as in the methods. A class overrides its bases. Texts under fields need the source file.
    """
    names = field_names(cls)
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not inspect.get_annotations(base).keys().isdisjoint(names):
            found |= _entries(base.__doc__ or "", names) | _under_fields(base)
    return {name: found[name] for name in names if name in found}


def field_names(cls: type) -> list[str]:
    """The fields of a dataclass or a pydantic model: first those of its bases, from left to right, then its own.

    Empty for any other class.
    """
    inherited = [name for base in cls.__bases__ for name in field_names(base)]
    own = getattr(cls, "__dataclass_fields__", None) or getattr(cls, "model_fields", {})
    return list(dict.fromkeys([*inherited, *own]))


def _entries(docstring: str, names: list[str]) -> dict[str, str]:
    """The entries `name: text` and `name, name: text`; an entry ends with its paragraph."""
    if not any(f"{name}: " in docstring for name in names):
        return {}
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    parts = re.split(rf"(?:^|(?<=\s))((?:{one})(?:, (?:{one}))*): ", docstring)
    return {
        name: _line(text.partition("\n\n")[0])
        for several, text in zip(parts[1::2], parts[2::2], strict=True)
        for name in several.split(", ")
    }


def _under_fields(cls: type) -> dict[str, str]:
    """The strings under the fields of a class."""
    for node in _module(getattr(sys.modules.get(cls.__module__), "__file__", None)):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            return dict(_documented(node.body))
    return {}


def _documented(body: list[ast.stmt]) -> list[tuple[str, str]]:
    return [
        (field.target.id, _line(text.value.value))
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    ]


@cache
def _module(file: str | None) -> list[ast.stmt]:
    """The statements of a module; none if there is no source."""
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8")).body if file is not None else []
    except (OSError, SyntaxError, ValueError):
        return []


def _line(text: str) -> str:
    return " ".join(text.split())


def spread(options: Callable[P, Options]) -> Callable[[Callable[[Options], T]], Callable[P, T]]:
    """Let a function of one dataclass take its fields as keywords. Their types and help come from the dataclass."""
    cls: Any = options
    fields = inspect.signature(cls).parameters
    meaning = "\n".join(
        textwrap.fill(f"{name}: {text}", 116, subsequent_indent="    ") for name, text in meanings(cls).items()
    )

    def decorated(function: Callable[[Options], T]) -> Callable[P, T]:
        def given(*args: P.args, **named: P.kwargs) -> Options:
            for name in named:
                if name not in fields:
                    raise TypeError(f"{function.__name__}() takes no {name!r}; {did_you_mean(name, fields)}")
            return options(*args, **named)

        def opened(*args: P.args, **named: P.kwargs) -> T:
            return function(given(*args, **named))

        async def awaited(*args: P.args, **named: P.kwargs) -> Any:
            return await function(given(*args, **named))  # type: ignore[misc]

        result: Any = awaited if inspect.iscoroutinefunction(function) else opened
        result.__name__ = result.__qualname__ = function.__name__
        result.__doc__ = f"{inspect.getdoc(function)}\n\n{meaning}"
        result.__signature__ = inspect.Signature(
            sorted((fields[name] for name in field_names(cls)), key=lambda each: each.kind)
        )
        return result  # type: ignore[no-any-return]

    return decorated


def as_budget(given: object) -> Budget | None:
    """Convert to a Budget: a whole number means tokens, a mapping names limits. Otherwise raises ConfigurationError."""
    if given is None or isinstance(given, Budget):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return Budget(tokens=given)
    if isinstance(given, Mapping):
        return from_mapping(Budget, given, "budget")
    raise ConfigurationError(
        f"a budget is a number of tokens or Budget(tokens=..., calls=..., seconds=..., usd=...), not {given!r}"
    )


def as_form(given: str | None) -> AnswerForm | None:
    """The answer form of this name. Raises ConfigurationError for an unknown one."""
    if given is not None and given not in FORMS:
        raise ConfigurationError(f"no answer form is called {given!r}; {did_you_mean(given, FORMS)}")
    return None if given is None else FORMS[given]


def as_options(given: object) -> ModelOptions | None:
    """Convert a mapping to ModelOptions. Raises ConfigurationError for anything else."""
    from reground.models.options import ModelOptions

    if given is None or isinstance(given, ModelOptions):
        return given
    if isinstance(given, Mapping):
        return from_mapping(ModelOptions, given, "model_options")
    raise ConfigurationError(f"model_options are reground.models.options.ModelOptions(...), not {given!r}")


def from_mapping(kind: type[T], given: Mapping[Any, Any], what: str) -> T:
    """Build a dataclass or a pydantic model from named values, ignoring None. Raises ConfigurationError."""
    known = field_names(kind)
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{what} has no {key!r}; {did_you_mean(str(key), known)}")
    named = {key: value for key, value in given.items() if value is not None}
    try:
        return kind(**named)
    except (TypeError, ValueError) as error:
        reasons = getattr(error, "errors", None)
        why = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in reasons()) if reasons is not None else str(error)
        raise ConfigurationError(f"{what} cannot be {named!r}: {why}") from None


def as_model(given: object, options: ModelOptions | None) -> str | LanguageModel:
    """Return a model's name or a language model; wrap a function from prompt to reply. Raises ConfigurationError."""
    from reground.models.function import FunctionModel

    if isinstance(given, str | LanguageModel):
        return given
    if callable(given) and not isinstance(given, type):
        return FunctionModel(given, price=None if options is None else options.price)
    raise ConfigurationError(
        "a model is 'provider/model', a function from prompt to reply, "
        f"or an object with a name and generate(), not {given!r}"
    )
