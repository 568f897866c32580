"""Loads what is chosen by name: from the table of a package, an installed plug-in, or the user's own file.

A table maps a name to `module`, or to `module:object` where a module holds several. Nothing is imported until an entry
is loaded, so a start pays for what it uses alone. An error in the user's code is reported with its line; what does not
fit where reground calls it, and so has no line, with its file.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from reground.core.errors import ConfigurationError

T = TypeVar("T")

_OWN = ("reground", "reground_minecraft")
_places: set[Path] = set()
"""The loaded files, and the folders of the loaded packages."""


def load_file(path: Path, what: str) -> ModuleType:
    """Run a file. what: its content, for the error message ("method").

    Raises ConfigurationError, with the line, if the file is missing or fails.
    """
    name = path.stem
    while name in sys.modules:
        name += "_"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigurationError(f"there is no {what} file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    _places.add(path.resolve())
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _refused(f"the {what} file {path} cannot be loaded", error, place_of(error) or str(path)) from error
    return module


def load_module(module: str, label: str) -> ModuleType:
    """Import a module of a plugin or of this package. Of an entry point's `module:name`, the name is ignored.

    label: the module's description for the error message. Raises ConfigurationError, with the line if it is a plugin's.
    """
    module = module.partition(":")[0]
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
        if spec is not None and spec.origin is not None and top not in _OWN:
            _places.add(Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin))
        return importlib.import_module(module)
    except Exception as error:
        raise _refused(f"{label} cannot be imported", error, place_of(error)) from error


def place_of(error: BaseException) -> str | None:
    """The innermost line of the user's code that an exception passed through, or None."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        if _places.intersection((file, *file.parents)):
            return f"{frame.filename}:{frame.lineno}, in {frame.name}"
    return None


def user_places() -> list[str]:
    """The files and the folders of packages that are the user's and were loaded."""
    return sorted(map(str, _places))


def origin(part: object) -> str:
    """The file that a module, a class, a function or an object's class is from, and the name of the class."""
    cls = part if isinstance(part, type | ModuleType) or inspect.isroutine(part) else type(part)
    module = cls if isinstance(cls, ModuleType) else sys.modules.get(cls.__module__)
    file = str(getattr(module, "__file__", None) or getattr(module, "__name__", "?"))
    return f"{file}: {cls.__name__}" if isinstance(cls, type) else file


def check_parts(part: object, what: str, *names: str) -> None:
    """Refuse an object or a class of the user's that lacks something. Raises ConfigurationError.

    what: what it is to be, and where it is from if that is not where its class is.
    """
    lacking = [name for name in names if getattr(part, name, None) is None]
    if lacking:
        raise ConfigurationError(f"{origin(part)} is no {what}: it has no {' and no '.join(lacking)}")


def called(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """What a function of the user's gives. Raises ConfigurationError, naming its file, where it takes other arguments,
    and what it raises itself."""
    try:
        return function(*arguments, **keywords)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it arose inside
            raise
        raise ConfigurationError(f"{origin(function)}: {error}") from None


async def awaited(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """The same of a coroutine."""
    result = called(function, *arguments, **keywords)
    if not inspect.isawaitable(result):
        name = getattr(function, "__qualname__", function)
        raise ConfigurationError(f"{origin(function)}: {name} is no coroutine: write async def")
    return await result


def _refused(what: str, error: Exception, place: str | None) -> ConfigurationError:
    why = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return ConfigurationError(f"{what}: {why}" if place is None else f"{what}: {place}: {why}")


@dataclass(frozen=True)
class Entry:
    """A name and the module behind it. target: the object in the module that is meant; empty for the module itself."""

    name: str
    module: str
    target: str = ""

    @property
    def summary(self) -> str:
        """Its own `summary`, or the first line of its docstring; empty where it cannot be imported."""
        try:
            loaded = self.load()
            return getattr(loaded, "summary", None) or (loaded.__doc__ or "").partition("\n")[0]
        except ConfigurationError:  # whoever chooses it is told why
            return ""

    def load(self) -> Any:
        """Import the module, and return it or the object in it. Raises ConfigurationError."""
        module = load_module(self.module, f"{self.name} ({self.module})")
        return getattr(module, self.target) if self.target else module


def entries(table: Mapping[str, str], group: str) -> dict[str, Entry]:
    """What a package's table and the entry points of a group name, in alphabetical order; an entry point wins."""
    own = {name: Entry(name, *place.split(":")) for name, place in table.items()}
    plugged = {point.name: Entry(point.name, point.value) for point in entry_points(group=group)}
    return dict(sorted((own | plugged).items()))
