"""Finds and reads benchmark files. Every error names the file and the line."""

from __future__ import annotations

import ast
import gzip
import json
import os
import tomllib
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, create_model

from reground.core.answers import Demonstration
from reground.core.errors import ConfigurationError, DataError
from reground.core.files import regular

Record = dict[str, JsonValue]


Texts = tuple[str, ...]
L = TypeVar("L", bound=BaseModel)


def fields(**kinds: Any) -> type[Any]:
    """The fields of a benchmark's line, each of a kind, or of a kind and with a default. Other fields are ignored.

    Numbers count as text where a text is wanted.
    """
    pairs: dict[str, Any] = {name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in kinds.items()}
    model: type[Any] = create_model("Line", __config__=ConfigDict(frozen=True, coerce_numbers_to_str=True), **pairs)
    return model


WHERE = "give the folder of the benchmark data with --data DIR or in REGROUND_DATA"

HUB = Path("hub")
"""The data root for the model hub: `--data hub`."""


def is_hub(root: Path) -> bool:
    """Whether a data root means the hub. A folder of that name has precedence."""
    return root == HUB and not root.is_dir()


def data_root(folder: Path | None = None) -> Path:
    """The folder with one folder per dataset: `folder`, else REGROUND_DATA, else ./data; or `hub` unchanged.

    Raises ConfigurationError if it is not a folder.
    """
    variable = os.environ.get("REGROUND_DATA")
    root = folder if folder is not None else Path(variable) if variable else Path("data")
    if not root.is_dir() and root != HUB:
        origin = "--data" if folder is not None else "REGROUND_DATA" if variable else "the default"
        raise ConfigurationError(f"no benchmark data: {root} ({origin}) is no folder; {WHERE}; or --data hub")
    return root


def data_path(root: Path, *parts: str) -> Path:
    """A file or folder of the data root, with `.gz` if only the compressed file exists. Raises DataError if missing."""
    if is_hub(root):
        raise DataError(f"{'/'.join(parts)} is not available from the hub; {WHERE}")
    path = root.joinpath(*parts)
    if path.exists():
        return path
    packed = path.with_name(path.name + ".gz")
    if packed.exists():
        return packed
    raise DataError(f"there is no such benchmark file; {WHERE}", path=path)


def numbered_records(path: Path, required: Sequence[str] = ()) -> Iterator[tuple[int, Record]]:
    """The objects of a JSONL file, gzipped or not, in order, with the numbers of their lines.

    Raises DataError for a line that is not a JSON object or lacks a `required` field, and for an unreadable file.
    """
    for number, line in numbered_lines(path):
        yield number, _parse(line, path, number, required)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, gzipped or not, that are not blank, with their numbers. Raises DataError."""
    number = 0
    try:
        packed = regular(path).name.endswith(".gz")
        with gzip.open(path, "rt", encoding="utf-8-sig") if packed else path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line
    except UnicodeDecodeError:
        raise DataError("not UTF-8 text", path=path, line=number + 1) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError("the compressed file is damaged or cut short; fetch it again", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error


def _parse(line: str, path: Path, number: int, required: Sequence[str]) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        why = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        raise DataError(f"not JSON: {why}", path=path, line=number) from None
    if not isinstance(record, dict):
        raise DataError(f"expected a JSON object, found {type(record).__name__}", path=path, line=number)
    missing = [name for name in required if name not in record]
    if missing:
        raise DataError(f"the field {missing[0]!r} is missing", path=path, line=number)
    return record


def read_values(path: Path, kind: type[L]) -> Iterator[tuple[int, L]]:
    """The lines of a JSONL file as values, with their numbers. Raises DataError naming the line and the field."""
    required = [name for name, field in kind.model_fields.items() if field.is_required()]
    for line, record in numbered_records(path, required):
        yield line, value_of(record, kind, path, line)


def value_of(record: Mapping[str, object], kind: type[L], path: Path, line: int) -> L:
    """A value from its fields. Raises DataError naming a field of the wrong type."""
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"the field {where} is unusable: {first['msg']}", path=path, line=line) from None


def parsed_code(source: str, what: str, path: Path, line: int) -> ast.Module:
    """A field's trusted code as a tree. Raises DataError if it is not Python."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about escapes in patterns
            return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise DataError(f"the field {what} is not Python code: {error}", path=path, line=line) from None


_WORKED = tomllib.loads(files("reground.evaluation.tasks").joinpath("demonstrations.toml").read_text(encoding="utf-8"))


def worked(name: str) -> list[dict[str, Any]]:
    """The worked examples of this name in tasks/demonstrations.toml."""
    examples: list[dict[str, Any]] = _WORKED[name]
    return examples


def demonstrations(name: str) -> tuple[Demonstration, ...]:
    """The same, where they have a question, reasoning and an answer."""
    return tuple(map(Demonstration.model_validate, worked(name)))
