"""The benchmark runs; what it measures is for people to read."""

import json

import pytest

from benchmarks import overhead


@pytest.mark.parametrize("in_flight", [1, 3])
def test_every_client_makes_all_its_calls(in_flight, tmp_path, capsys):
    overhead.main(
        ["--quick", "--latency", "0.001", "--calls", "2", "--flights", str(in_flight), "--json", f"{tmp_path}/r"]
    )
    rows = json.loads((tmp_path / "r").read_text())
    assert [row["client"] for row in rows] == list(overhead.clients())
    assert all(row["calls"] == 2 * in_flight and row["cpu_ms"] > 0 and row["ratio"] >= 1 for row in rows)
    table = capsys.readouterr().out
    assert table.count("\n") == 2 + len(rows)
    assert "| bare aiohttp |" in table
