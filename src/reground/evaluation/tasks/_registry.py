"""Tasks by name: every file of this package, and the entry points of the group `reground.tasks`.

A task file holds `TASKS`, a mapping from a task's name to what loads it from the data root, and, where it
takes a folder of the user's own, `FOLDERS`, a mapping from a scheme (`beir`, as in `beir:DIR`) to what loads that.
An entry point names a module of the same shape.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from reground.core.errors import ConfigurationError, did_you_mean
from reground.evaluation.splits import require_training

if TYPE_CHECKING:
    from reground.evaluation.task import Task

PACKAGE = "reground.evaluation.tasks"
GROUP = "reground.tasks"


def task_names() -> list[str]:
    """Every task's name, in alphabetical order."""
    return sorted(_where("TASKS"))


def folder_schemes() -> list[str]:
    """The schemes under which a folder of one's own is a task: `beir` for `beir:DIR`."""
    return sorted(_where("FOLDERS"))


def load_task(name: str, root: Path) -> Task:
    """Load a task from the data root; `scheme:DIR` loads a folder of one's own instead.

    Raises ConfigurationError with near names for an unknown task, DataError for data that are absent or broken.
    """
    scheme, colon, folder = name.partition(":")
    kind, key, where = ("FOLDERS", scheme, Path(folder)) if colon else ("TASKS", name, root)
    modules = _where(kind)
    if key not in modules:
        raise ConfigurationError(f"no task is called {name!r}; {did_you_mean(name, _known())}")
    task: Task = getattr(modules[key], kind)[key](where)
    return task


def load_training_task(name: str, root: Path) -> Task:
    """Load a training split. Raises ConfigurationError, naming what to train on instead, for a task that measures."""
    require_training(name, _known())
    return load_task(name, root)


def _known() -> list[str]:
    return [*task_names(), *(f"{scheme}:DIR" for scheme in folder_schemes())]


@cache
def _where(kind: str) -> dict[str, ModuleType]:
    return {key: module for module in _modules() for key in getattr(module, kind, {})}


def _modules() -> Iterator[ModuleType]:
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.iter_modules(package.__path__):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"{PACKAGE}.{found.name}")
    for point in entry_points(group=GROUP):
        try:
            yield importlib.import_module(point.value)
        except ImportError as error:
            raise ConfigurationError(
                f"the task plugin {point.name} ({point.value}) cannot be imported: {error}"
            ) from error
