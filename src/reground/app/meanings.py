"""Reads the descriptions of fields from the source; help, listings and the reference all use them."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path


@cache
def meanings(cls: type) -> dict[str, str]:
    """The description of each field of a dataclass or a pydantic model, in one line. Fields without one are left out.

    A description is the text under the field, as in `reground.treesearch.tree`, or the entry `name: text` in the
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
