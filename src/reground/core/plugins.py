"""What can be chosen by name: the table of a package, and what installed packages add with entry points.

A table maps a name to `module`, or to `module:object` where a module holds several. Nothing is imported until an entry
is loaded, so a start pays for what it uses alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from reground.core.errors import ConfigurationError
from reground.core.own_files import load_module


@dataclass(frozen=True)
class Entry:
    """A name and the module behind it. target: the object in the module that is meant; empty for the module itself."""

    name: str
    module: str
    target: str = ""

    @property
    def summary(self) -> str:
        """The first line of the docstring; empty where there is none, or where it cannot be imported."""
        try:
            return (self.load().__doc__ or "").partition("\n")[0]
        except ConfigurationError:  # whoever chooses it is told why
            return ""

    def load(self) -> Any:
        """Import the module, and return it or the object in it. Raises ConfigurationError."""
        module = load_module(self.module, f"{self.name} ({self.module})")
        return getattr(module, self.target) if self.target else module


def entries(table: Mapping[str, str], group: str) -> dict[str, Entry]:
    """What a package's table and the entry points of a group name, in alphabetical order; an entry point wins."""
    own = {name: Entry(name, *place.split(":")) for name, place in table.items()}
    return dict(sorted((own | plugged(group)).items()))


def plugged(group: str) -> dict[str, Entry]:
    """What installed packages add to a group of entry points, by name. Each names a module."""
    return {point.name: Entry(point.name, point.value) for point in entry_points(group=group)}
