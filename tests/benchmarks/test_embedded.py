"""The benchmark of the engine in process, on a real model; what it measures is for people to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import embedded
from tests.models import small_model


def test_the_engine_stands_beside_a_pinned_server_a_core(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp", reason="needs the extra [local]")
    sizes = ["--questions", "1", "--flights", "1", "--rounds", "1"]
    embedded.main(["--model", str(small_model()), *sizes, "--ways", "own choice,servers", "--json", f"{tmp_path}/rows"])
    rows = json.loads((tmp_path / "rows").read_text())
    assert [(row["way"], row["in_flight"]) for row in rows] == [("own choice", 1), ("servers", 1)]
    assert rows[0]["over_own"] == 1 and all(row["wall_s"] > 0 and row["cpu_s"] > 0 for row in rows)
    assert "| servers | 1 |" in capsys.readouterr().out
