"""Rows of training data: written, read back, and refused with their line where they are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.training.rows import Preference, read_rows, write_rows

ROWS = [
    Preference(question="q1", kind="doc", prompt="Who?", chosen="a", rejected="b", margin=0.5, visits=(3, 2)),
    Preference(question="q2", kind="query", prompt="Où?\u2028", chosen="c", rejected="d", extra={"rank": 2}),
]


def test_rows_come_back_as_they_were_and_other_tools_can_read_them(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", ROWS)
    assert read_rows(tmp_path / "rows.jsonl", Preference) == ROWS
    plain = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert [row["chosen"] for row in plain] == ["a", "c"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting"),
        ('{"question": "q", "kind": "doc", "prompt": "p", "chosen": "c"}', "rejected: Field required"),
        ('{"question": "q", "kind": "doc", "prompt": "p", "chosen": "c", "rejected": 7}', "rejected: "),
    ],
)
def test_a_broken_row_is_named_by_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "rows.jsonl"
    write_rows(file, ROWS)
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"rows\.jsonl:3: this is no preference: {why}"):
        read_rows(file, Preference)


def test_a_file_without_rows_and_no_file_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DataError, match="no rows here: the stage that wrote this file found nothing to teach"):
        read_rows(tmp_path / "empty.jsonl", Preference)
    with pytest.raises(DataError, match="no training data yet: run the stage that writes this file first"):
        read_rows(tmp_path / "absent.jsonl", Preference)
