"""What a field means, as its author wrote it: the one text behind help, listings and the reference."""

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
    """Each field of a dataclass or a pydantic model with its meaning, in one line; a field without one is left out.

    The meaning is the text under the field, as in `reground.treesearch.settings`, or its entry `name: text` in the
    class's docstring, as in the methods. A class's own words go over those of its bases. Without sources there are none.
    """
    names = field_names(cls)
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not inspect.get_annotations(base).keys().isdisjoint(names):
            found |= _entries(base.__doc__ or "", names) | _under_fields(base)
    return {name: found[name] for name in names if name in found}


def field_names(cls: type) -> list[str]:
    """The fields of a dataclass or a pydantic model: those of its bases, from left to right, then its own.

    None of any other class.
    """
    inherited = [name for base in cls.__bases__ for name in field_names(base)]
    own = getattr(cls, "__dataclass_fields__", None) or getattr(cls, "model_fields", {})
    return list(dict.fromkeys([*inherited, *own]))


def _entries(docstring: str, names: list[str]) -> dict[str, str]:
    """The entries `name: text` and `name, name: text`; each ends with its paragraph."""
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
    """The strings that stand under the fields of a class."""
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
    """A module's statements; none where there is no source."""
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8")).body if file is not None else []
    except (OSError, SyntaxError, ValueError):
        return []


def _line(text: str) -> str:
    return " ".join(text.split())
