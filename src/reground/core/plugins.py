"""Finds what can be chosen by name, modules of a package and of installed plug-ins, without importing it."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from reground.core.own_files import load_module


@dataclass(frozen=True)
class Entry:
    """A name and the module behind it."""

    name: str
    module: str

    @property
    def summary(self) -> str:
        """The first line of the module's docstring; empty if there is no readable source."""
        try:
            tree = ast.parse(_source(self.module))
        except SyntaxError:  # loading the module reports the error
            return ""
        return (ast.get_docstring(tree) or "").partition("\n")[0]

    def load(self) -> ModuleType:
        """Import the module. Raises ConfigurationError."""
        return load_module(self.module, f"{self.name} ({self.module})")


def entries(package: str, *, defines: str, group: str | None = None) -> dict[str, Entry]:
    """The modules of the package that define `defines`, and those that entry points add, by name.

    group: of the entry points, if not the package's name.
    """
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    definition = re.compile(rf"^(?:(?:(?:async )?def|class) {defines}\b|{defines}\s*[:=])", re.MULTILINE)
    found = {}
    for each in pkgutil.iter_modules(folders):
        module = f"{package}.{each.name}"
        if not each.name.startswith("_") and definition.search(_source(module)):
            found[each.name] = Entry(each.name, module)
    return dict(sorted((found | plugged(group or package)).items()))


def plugged(group: str) -> dict[str, Entry]:
    """What installed packages add to a group of entry points, by name."""
    return {point.name: Entry(point.name, point.value) for point in entry_points(group=group)}


def _source(module: str) -> str:
    """A module's source, so that a listing imports nothing; empty if there is none to read."""
    try:
        spec = importlib.util.find_spec(module.partition(":")[0])
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            return Path(spec.origin).read_text(encoding="utf-8")
    except ImportError:
        pass  # loading the module by name reports the error
    return ""
