"""The benchmark runs; what it measures is for people to read."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import folder
from benchmarks.mixed import Folder
from reground.retrieval.index import build_index


def test_the_same_seed_makes_the_same_files_and_all_kinds_are_read(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        Folder(tmp_path / name, 3).make(120, 2_000_000)
    one, other = (
        {file.name: file.read_bytes()[:2000] for file in (tmp_path / name).rglob("*.*")} for name in ("one", "other")
    )
    assert one == other
    report = build_index(tmp_path / "one", tmp_path / "index")
    assert {file.kind for file in report.skipped} == {"large", "image", "damaged", "encrypted"}
    assert report.documents > 100


@pytest.mark.skipif(sys.platform != "linux", reason="sees in /proc when files are listed")
def test_every_step_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.main(["--files", "60", "--megabytes", "1", "--folder", str(tmp_path), "--json", str(tmp_path / "rows")])
    rows = {row["step"]: row for row in json.loads((tmp_path / "rows").read_text())}
    assert rows["nothing changed"]["read"] == 0
    assert rows["10 files changed"]["read"] == min(10, 8)
    assert all(row["seconds"] > 0 and row["cpu"] > 0 and row["memory"] > 10 for row in rows.values())
    assert capsys.readouterr().out.count("\n") == 4 + len(rows)
    assert [file.name for file in tmp_path.iterdir()] == ["rows"]
