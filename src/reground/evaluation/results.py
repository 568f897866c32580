"""The results store: one folder per run, with plain files that can be read without reground.

    config.json         the configuration: task, data, method, model, budget, seed, ids, limit, repeats
    versions.json       the versions of Python and the libraries
    journal.sqlite      every effect, so that no call is paid twice
    trajectories.jsonl  one line per question and repeat: the whole trajectory
    scores.jsonl        one line per question and repeat: every metric's value and reason, usage, seconds, failure
    summary.json        means, intervals, cost

JSON files are replaced whole; the two JSONL files only grow by whole lines, each with a checksum (`core.files`). When a
run is opened again, an incomplete last line is removed, and a damaged line is moved to another file (.damaged). The
journal still has the effects behind such a line.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from reground.core.errors import ConfigurationError, DataError
from reground.core.files import append_line, read_lines, replace_lines, set_aside, with_sum, without_sum
from reground.core.language import Value, storable_text
from reground.core.paths import locked
from reground.core.trajectory import (
    Trajectory,
    append_trajectory,
    parse_trajectory,
    read_trajectories,
    write_trajectories,
)
from reground.evaluation.records import FORMAT, Record, RunConfig, Summary

MAY_GROW = frozenset({"limit", "repeats"})
NEWER = frozenset(
    f"model_settings.{name}" for name in ("base_url", "adapter_files", "weights", "judge_weights", "rewriter_weights")
) | {"settings.file"}
"""Fields that older run folders may lack; a missing field agrees with any value."""
_LIBRARIES = ("pydantic", "aiohttp", "tantivy", "xllamacpp", "numpy", "math-verify", "torch", "transformers", "lancedb")
_OURS = frozenset(
    ("config.json", "versions.json", "journal.sqlite", "trajectories.jsonl", "scores.jsonl", "summary.json")
)

V = TypeVar("V", bound=Value)


@dataclass
class RunFolder:
    """An open run folder. `notices` are messages for the user about repairs."""

    path: Path
    config: RunConfig
    notices: list[str] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.path / "journal.sqlite"

    @property
    def trajectories(self) -> Path:
        """The trajectories' file."""
        return self.path / "trajectories.jsonl"

    @property
    def scores(self) -> Path:
        """The scores' file."""
        return self.path / "scores.jsonl"

    def append(self, trajectory: Trajectory) -> None:
        """Add a finished question."""
        append_trajectory(self.trajectories, trajectory)

    def append_record(self, record: Record) -> None:
        """Add a question's scores."""
        append_line(self.scores, record.model_dump_json())

    def records(self) -> dict[str, Record]:
        """Every scored question by its id, without a line that is still being written."""
        return {record.id: record for record in read_records(self.scores)} if self.scores.exists() else {}

    def solved(self) -> Iterator[Trajectory]:
        """Every finished question."""
        return read_trajectories(self.trajectories) if self.trajectories.exists() else iter(())

    def drop(self, ids: frozenset[str], *, trajectories: bool) -> None:
        """Remove questions from the scores and the trajectories, so that they are run again."""
        if trajectories and self.trajectories.exists():
            write_trajectories(self.trajectories, (t for t in self.solved() if t.id not in ids))
        if self.scores.exists():
            kept = [record for key, record in self.records().items() if key not in ids]
            replace_lines(self.scores, (with_sum(record.model_dump_json()) for record in kept))

    def write_summary(self, summary: Summary) -> None:
        """Replace summary.json."""
        write_text(self.path / "summary.json", summary.model_dump_json(indent=2) + "\n")

    def summary(self) -> Summary | None:
        """The content of summary.json, or None."""
        path = self.path / "summary.json"
        return _read_value(path, Summary) if path.exists() else None


def read_stored(path: Path, kind: type[V], what: str) -> V | None:
    """A JSON file's value; None if there is no file. Raises DataError if it is not `what`."""
    if not path.is_file():
        return None
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None
    except ValidationError as error:
        raise DataError(f"not {what} of this format: {error.errors()[0]['msg']}", path=path) from None


def write_text(path: Path, text: str) -> None:
    """Replace a file whole: a reader sees the old text or the new one. Raises StorageError."""
    replace_lines(path, [storable_text(text).encode()])


@contextmanager
def open_run(path: Path, config: RunConfig) -> Iterator[RunFolder]:
    """Start or resume a run folder. Only one process can have it open.

    Raises ConfigurationError if the folder contains another run or is in use, DataError if a file in it is broken.
    """
    _refuse_foreign(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the run folder {path}: {error.strerror}") from error
    with locked(path / ".lock", "running in", path):
        stored = path / "config.json"
        if stored.exists():
            config = _agree(path, _read_config(stored), config)
        write_text(stored, config.model_dump_json(indent=2) + "\n")
        write_text(path / "versions.json", json.dumps(versions(), indent=2) + "\n")
        folder = RunFolder(path, config)
        for file, check in ((folder.trajectories, parse_trajectory), (folder.scores, Record.model_validate_json)):
            folder.notices += set_aside(file, check) if file.exists() else []
        yield folder


def check_run(path: Path, config: RunConfig) -> None:
    """Raise the errors of `open_run` about the folder's configuration, without changing anything."""
    _refuse_foreign(path)
    if (path / "config.json").exists():
        _agree(path, _read_config(path / "config.json"), config)


def read_run(path: Path) -> RunFolder:
    """Open a run folder for reading, finished or not. Raises DataError for another folder."""
    if not (path / "config.json").is_file():
        raise DataError("not a run folder: it has no config.json", path=path)
    return RunFolder(path, _read_config(path / "config.json"))


def find_runs(paths: list[Path]) -> list[RunFolder]:
    """The run folders among these paths and directly below them, in order. Raises DataError for a path without one."""
    found: list[RunFolder] = []
    for path in paths:
        folders = [path] if (path / "config.json").is_file() else sorted(p.parent for p in path.glob("*/config.json"))
        if not folders:
            raise DataError("no run folder here: none has a config.json", path=path)
        found += [read_run(folder) for folder in folders]
    return found


def read_records(path: Path) -> Iterator[Record]:
    """Read scores.jsonl, without a last line that is still being written. Raises DataError naming the line."""
    for number, line in read_lines(path, "scores"):
        try:
            yield Record.model_validate_json(without_sum(line))
        except ValueError as error:
            if not line.endswith(b"\n"):
                return
            why = f"not a line of scores: {_first(error)}" if isinstance(error, ValidationError) else str(error)
            raise DataError(why, path=path, line=number) from None


def versions() -> dict[str, str]:
    """The versions of Python, the platform and the libraries."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in ("reground", *_LIBRARIES):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _refuse_foreign(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"{path} is a file: --out needs a folder")
    if not path.is_dir() or (path / "config.json").exists():
        return
    files = sorted(p.name for p in path.iterdir() if p.name != ".lock" and not p.name.endswith(".part"))
    ours = [name for name in files if name in _OURS]
    if ours:
        raise DataError(f"config.json is missing next to {ours[0]}: put it back or choose another --out", path=path)
    if files:
        raise ConfigurationError(
            f"{path} holds other files ({files[0]}, ...) and is not a run folder: choose another --out"
        )


def _read_config(path: Path) -> RunConfig:
    return _read_value(path, RunConfig)


def _read_value(path: Path, kind: type[V]) -> V:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path=path) from error
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}", path=path, line=error.lineno) from error
    except (RecursionError, ValueError) as error:
        raise DataError(f"not JSON: {error}", path=path) from None
    if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
        raise DataError(f"format {data['format']}; this reground reads {FORMAT}", path=path)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise DataError(_first(error), path=path) from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def _agree(path: Path, old: RunConfig, new: RunConfig) -> RunConfig:
    """The configuration of a resumed run: `limit` and `repeats` may grow, everything else must be equal."""
    before, after = _flat(old.model_dump(mode="json")), _flat(new.model_dump(mode="json"))
    names = dict.fromkeys([*before, *after])
    differing = [
        name
        for name in names
        if (name in before or name not in NEWER)
        and before.get(name) != after.get(name)
        and not _grown(name, before.get(name), after.get(name))
    ]
    if differing:
        said = "; ".join(f"{name} was {_brief(before.get(name))}, now {_brief(after.get(name))}" for name in differing)
        raise ConfigurationError(
            f"{path} contains another run: {said}. Give the same options to resume it, or another --out"
        )
    return new


def _flat(config: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Nested settings by their dotted names."""
    flat: dict[str, JsonValue] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat


def _grown(name: str, old: JsonValue, new: JsonValue) -> bool:
    return name in MAY_GROW and isinstance(old, int) and (new is None or (isinstance(new, int) and new >= old))


def _brief(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."
