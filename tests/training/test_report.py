"""The page of a training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.training.fitting import read_metrics
from reground.training.report import write_report, write_section


def test_the_page_has_the_stages_in_their_order_and_a_plot_of_every_fit(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra [eval]")
    fit = tmp_path / "fit" / "doc"
    fit.mkdir(parents=True)
    rows = [{"step": n, "loss": 1 / n, "learning_rate": 0.1} for n in range(1, 21)]
    (fit / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 21, "lo')
    write_section(tmp_path, "eval", "| kind | accuracy |")
    write_section(tmp_path, "data", "40 pairs")
    page = (tmp_path / "report.md").read_text()
    assert page.index("## Data\n\n40 pairs") < page.index("## Eval\n\n| kind | accuracy |") < page.index("## fit/doc")
    assert "20 steps; smoothed loss 1.0000 at first, 0.0513 at last." in page
    first = (fit / "metrics.svg").read_bytes()
    assert "![metrics of fit/doc](fit/doc/metrics.svg)" in page
    write_report(tmp_path)
    assert (fit / "metrics.svg").read_bytes() == first
    assert len(read_metrics(fit / "metrics.jsonl")) == 20
