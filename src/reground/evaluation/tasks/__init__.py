"""Benchmarks, one file a family, and tasks by name.

Tasks are found in this package, in the entry points of the group `reground.tasks`, and in files given by path.

A task module has `TASKS`, a mapping from names to loaders. A loader takes the data root, or nothing if the task
contains its questions. A module may also have `FOLDERS`, a mapping from schemes (`beir` in `beir:DIR`) to loaders of
the user's folders. An entry point names such a module; it cannot replace a task that exists.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from reground.core.answers import AnswerForm
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.user_code import called, check_parts, load_file, load_module, origin
from reground.evaluation.data import data_root
from reground.evaluation.questions import SUFFIX, is_file, is_training, split_of
from reground.evaluation.task import Task

_MODULES = ("choice", "code", "mathematics", "own", "qa", "retrieval", "writing")
"""The modules of this package with `TASKS` or `FOLDERS`."""
GROUP = "reground.tasks"
_PARTS = ("name", "form", "primary", "examples", "demonstrations", "solutions", "score")

Loader = Callable[..., Task]


def task_names() -> list[str]:
    """Every task's name, in alphabetical order."""
    return sorted(_loaders("TASKS"))


def folder_schemes() -> list[str]:
    """The schemes under which a folder of one's own is a task: `beir` for `beir:DIR`."""
    return sorted(_loaders("FOLDERS"))


def load_task(name: str, data: Path | None = None) -> Task:
    """Load a task from the data root, `data_root(data)`.

    `scheme:DIR` loads a folder of one's own, `FILE.py` or `FILE.py:NAME` a task of a file of one's own.
    Raises ConfigurationError with near names for an unknown task, DataError for data that are absent or broken.
    """
    load, where = _loader(name)
    parameters = inspect.signature(load).parameters.values()
    # *args and **kwargs, which the base class brings along, are no folder.
    takes_folder = any(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    task = called(load, where or data_root(data)) if takes_folder else called(load)
    check_parts(task, "task, as in reground.evaluation.task.Task", *_PARTS)
    if not isinstance(task.form, AnswerForm):
        raise ConfigurationError(f"{origin(task)}: form is {task.form!r:.80}, not one of reground.core.answers")
    return task


def load_training_task(name: str, data: Path | None = None) -> Task:
    """Load a training split. Raises ConfigurationError, naming what to train on instead, for a task that measures."""
    if is_training(name):
        return load_task(name, data)
    splits = sorted(filter(is_training, _all_names()))
    own = [split for split in splits if split_of(name).startswith(split_of(split).removesuffix(SUFFIX))]
    if own:
        raise ConfigurationError(f"{name} is for measuring: train on {max(own, key=len)}")
    raise ConfigurationError(f"{name} is for measuring and has no training split: train on one of {', '.join(splits)}")


def load_tasks(names: Iterable[str], data: Path | None, *, own: Sequence[str]) -> dict[str, Task]:
    """The tasks of finished runs by their names. own: where a name is that of a task in a file, `FILE.py:NAME`.

    Raises what `load_task` raises, and says how a task in a file is named.
    """
    by_name = {task.name: task for task in (load_task(each, data) for each in own)}
    tasks = {}
    for name in names:
        try:
            tasks[name] = by_name.get(name) or load_task(name, data)
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}; name one in a file of your own with --tasks FILE.py:{name}") from None
    return tasks


def _loader(name: str) -> tuple[Loader, Path | None]:
    """What loads a task, and the folder that its name gives."""
    if is_file(name):
        return _from_file(name), None
    scheme, colon, folder = name.partition(":")
    loaders = _loaders("FOLDERS" if colon else "TASKS")
    if scheme not in loaders:
        faults = "".join(f"; {why}" for why in _plugins()[1])
        raise ConfigurationError(f"no task is called {name!r}; {did_you_mean(name, _all_names())}{faults}")
    return loaders[scheme], Path(folder) if colon else None


def _from_file(name: str) -> Loader:
    """The task that a file's `TASKS` has under the name after the colon, or its only one."""
    file, _, task = name.partition(":")
    loaders = _table(load_file(Path(file), "task"), "TASKS")
    if not task and len(loaders) == 1:
        return next(iter(loaders.values()))
    if task not in loaders:
        names = ", ".join(f"{file}:{key}" for key in loaders)
        raise ConfigurationError(f"no task is called {name!r}; {f'there are {names}' if names else 'it has no TASKS'}")
    return loaders[task]


def _all_names() -> list[str]:
    return [*task_names(), *(f"{scheme}:DIR" for scheme in folder_schemes())]


@cache
def _loaders(kind: str) -> dict[str, Loader]:
    loaders: dict[str, Loader] = {}
    for module in (*(importlib.import_module(f"{__name__}.{name}") for name in _MODULES), *_plugins()[0]):
        loaders = {**_table(module, kind), **loaders}
    return loaders


def _table(module: ModuleType, kind: str) -> Mapping[str, Loader]:
    table = getattr(module, kind, {})
    if not isinstance(table, Mapping) or not all(map(callable, table.values())):
        raise ConfigurationError(
            f'{origin(module)}: {kind} is not names with their classes: {kind} = {{"name": Class}}'
        )
    return table


@cache
def _plugins() -> tuple[list[ModuleType], list[str]]:
    """The modules of the entry points, and what is wrong with those that cannot be had."""
    modules, faults = [], []
    for point in entry_points(group=GROUP):
        try:
            module = load_module(point.value, f"the task plugin {point.name} ({point.value})")
            for kind in ("TASKS", "FOLDERS"):
                _table(module, kind)
            modules.append(module)
        except ConfigurationError as error:
            faults.append(str(error))
    return modules, faults
