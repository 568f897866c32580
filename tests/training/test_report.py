"""The page of a training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.training.fitting import read_metrics
from reground.training.report import smoothed, write_report, write_section


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


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=50), st.floats(0.01, 1))
def test_smoothing_is_a_running_mean(values: list[float], share: float) -> None:
    width = max(1, round(len(values) * share))
    wanted = [
        sum(window) / len(window) for n in range(len(values)) for window in [values[max(0, n + 1 - width) : n + 1]]
    ]
    assert smoothed(values, share) == pytest.approx(wanted, abs=1e-9)


def test_a_page_of_a_fit_by_reward_shows_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra [eval]")
    fit = tmp_path / "fit" / "ppo"
    fit.mkdir(parents=True)
    names = (
        "reward",
        "hit",
        "kl",
        "entropy",
        "length",
        "value_loss",
        "explained_variance",
        "clipped",
        "empty",
        "ended",
    )
    rows = [{"step": n, "loss": -n, **dict.fromkeys(names, n / 10)} for n in range(1, 11)]
    del rows[0]["explained_variance"]  # it has none where all returns are alike
    (fit / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "10 steps; smoothed reward 0.1000 at first, 1.0000 at last." in write_report(tmp_path).read_text()
    drawn = (fit / "metrics.svg").read_text()
    assert drawn.count('<g id="axes_') == len(names) + 1
