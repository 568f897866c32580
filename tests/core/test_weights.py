"""Damaged weights are named by their file, whatever a library says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.files import trouble

HEADER = json.dumps(
    {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
).encode()
EMPTY = (2).to_bytes(8, "little") + b"{}"
WHOLE = len(HEADER).to_bytes(8, "little") + HEADER + bytes(8)


@pytest.mark.parametrize(
    "damaged",
    [b"", b"abc", WHOLE[:20], WHOLE[:-1], WHOLE + b"x", b"\xff" * 8 + WHOLE[8:], WHOLE.replace(b"data_", b"date_"),
     WHOLE.replace(b'"a"', b"\xff\xfe\xfd"), EMPTY[:8] + b"[]", EMPTY + b"x"],
)  # fmt: skip
def test_a_damaged_file_is_named(damaged: bytes, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "good.safetensors").write_bytes(WHOLE)
    file = tmp_path / "inner" / "model.safetensors"
    file.write_bytes(damaged)
    assert trouble(ValueError("header too\n large"), tmp_path) == f"{file} is damaged or was not written whole"


def test_where_the_files_are_whole_the_error_speaks(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(WHOLE)
    (tmp_path / "empty.safetensors").write_bytes(EMPTY)
    assert trouble(ValueError("header too\n large"), tmp_path, "org/absent", None) == "header too large"
    assert trouble(KeyError(), tmp_path) == "KeyError"
