"""The papers' claims: data that can be tried, and tables whose numbers are checked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.app import catalogue
from reground.core.errors import ConfigurationError
from reground.evaluation.claims import ALL, CLAIMS, Claim, chosen, claim_tables
from reground.evaluation.records import Record
from reground.evaluation.report import build_reports
from reground.evaluation.summary import question_scores
from reground.evaluation.task import Score
from reground.evaluation.tasks import folder_schemes, task_names
from tests.evaluation.test_report import write_run


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_names_what_there_is(claim: Claim) -> None:
    assert claim.task in task_names() or claim.task.partition(":")[0] in folder_schemes()
    for name in claim.figures:
        catalogue.method_class(name)
    assert all(figure is None or 0 < figure < 100 for figure in claim.figures.values())
    assert claim.rival != claim.own
    assert len(claim.figures) > 1


def test_every_paper_has_a_preset_and_every_claim_a_name() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    papers = ("rat", "rar", "cr_planner", "search_agent", "rewriter")
    assert sum(len(chosen(f"{paper}-claims")) for paper in papers) == len(chosen(ALL)) == len(CLAIMS)
    with pytest.raises(ConfigurationError, match="rat-claims"):
        chosen("rat-claim")


def test_published_figures_stand_beside_measured_ones(tmp_path: Path) -> None:
    write_run(tmp_path / "direct", "direct", [1.0, 0.0, 0.0, 0.0])
    write_run(tmp_path / "rag", "rag", [1.0, 1.0, 0.0, 0.0])
    write_run(tmp_path / "rar", "rar", [1.0, 1.0, 1.0, 0.0])
    (report,) = build_reports([tmp_path])
    claim = Claim(
        paper="rar", source="table 1", task="sums", metric="em", figures={"direct": 20.0, "rag": None, "rar": 60.5}
    )
    scores, gains = claim_tables([(claim, report.rows)])
    published = {row[1]: row[3:5] for row in scores.rows}
    assert published == {
        "direct@1k": ["0.200", "0.250"], "rag@1k": ["–", "0.500"], "rar@1k": ["0.605", "0.750"],
    }  # fmt: skip
    assert claim.rival == "direct", "the best that was published, whatever was measured"
    assert [row[:5] for row in gains.rows] == [["rar-sums", "rar@1k", "direct", "+0.405", "+0.500"]]


def test_a_claim_without_its_rival_has_no_gain(tmp_path: Path) -> None:
    write_run(tmp_path / "rar", "rar", [1.0, 1.0])
    (report,) = build_reports([tmp_path])
    claim = Claim(paper="rar", source="table 1", task="sums", metric="other", figures={"direct": 20.0, "rar": 60.5})
    scores, gains = claim_tables([(claim, report.rows)])
    assert scores.rows[0][3:6] == ["0.605", "–", "–"], "a metric that was not measured"
    assert gains.rows == []


def test_pass_at_k_of_a_question_comes_from_its_repeats() -> None:
    records = [
        Record(id=f"{q}~{r}", example=q, repeat=r, scores={"pass@1": Score(value=value)})
        for q, passed in {"a": (1.0, 0.0, 0.0), "b": (0.0, 0.0, 0.0)}.items()
        for r, value in enumerate(passed)
    ]
    assert question_scores("pass@1", records) == {"a": pytest.approx(1 / 3), "b": 0.0}
    assert question_scores("pass@2", records) == {"a": pytest.approx(2 / 3), "b": 0.0}
    assert question_scores("pass@3", records) == {"a": 1.0, "b": 0.0}
    assert question_scores("pass@5", records) == {}, "too few repeats"
