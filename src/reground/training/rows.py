"""Training data as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, JsonValue, ValidationError

from reground.core.errors import DataError
from reground.core.language import Value
from reground.core.lines import read_lines, replace_lines
from reground.core.storable import Text

Row = TypeVar("Row", bound=Value)


class Preference(Value):
    """A stub."""

    prompt: Text
    chosen: Text
    rejected: Text
    margin: float
    kind: str
    question: str
    visits: tuple[int, int]
    extra: dict[str, JsonValue] = Field(default_factory=dict)


def read_rows(path: Path, type: type[Row]) -> list[Row]:
    """A stub."""
    rows: list[Any] = []
    for number, line in read_lines(path, "rows"):
        try:
            rows.append(type.model_validate_json(line))
        except ValidationError as error:
            raise DataError(error.errors()[0]["msg"], path=path, line=number) from None
    return rows


def write_rows(path: Path, rows: Iterable[Value]) -> None:
    """A stub."""
    replace_lines(path, (row.model_dump_json().encode() + b"\n" for row in rows))
