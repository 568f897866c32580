"""The papers' claims: data that can be tried, and tables whose numbers are checked by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from reground.app import catalogue
from reground.core.errors import ConfigurationError
from reground.evaluation.claims import ALL, Claim, claim_tables, claims, claims_of
from reground.evaluation.report import build_reports
from reground.evaluation.tasks import folder_schemes, task_names
from tests.evaluation.test_report import write_run


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.name)
def test_a_claim_names_what_there_is(claim: Claim) -> None:
    assert claim.task in task_names() or claim.task.partition(":")[0] in folder_schemes()
    for cell in claim.cells:
        catalogue.method(cell.method)
    figures = [figure for columns in claim.figures.values() for each in columns.values() for figure in each.values()]
    assert all(math.isnan(figure) or 0 < figure < 100 for figure in figures)
    assert claim.baseline != claim.own
    assert all(claim.own in methods for columns in claim.figures.values() for methods in columns.values())


def test_every_paper_has_a_preset_and_every_claim_a_name() -> None:
    everything = claims()
    assert len({claim.name for claim in everything}) == len(everything)
    papers = ("rat", "rar", "cr_planner", "search_agent", "rewriter")
    assert sum(len(claims_of(f"{paper}-claims")) for paper in papers) == len(claims_of(ALL)) == len(everything)
    with pytest.raises(ConfigurationError, match="rat-claims"):
        claims_of("rat-claim")


def test_the_headlines_of_the_papers_follow_from_their_figures() -> None:
    """What the abstracts and introductions say of the tables, in percent of the best other method."""
    named = {claim.name: claim for claim in claims()}

    def gain(name: str, limit: int | None, metric: str) -> float:
        claim = named[name]
        said, (rival, *_) = claim.published(limit, metric), claim.rivals(limit, metric)
        return round(100 * (said[claim.own] / said[rival] - 1), 1)

    assert gain("rar-classeval-method", 4000, "pass@5") == 16.4
    assert gain("rar-mbpp-plus", 4000, "pass@5") == 4.2
    assert gain("rar-gsm8k", 4000, "accuracy") == 11.6
    assert gain("rar-gsm-hard", 4000, "accuracy") == 3.0
    assert gain("rat-gsm8k", None, "accuracy") == 8.4
    assert named["rar-humaneval"].rivals(4000, "pass@1") == ["cot_rag", "rar+non_causal"]
    assert named["rar-humaneval"].published(16000, "pass@5") == {"rar": 82.5}
    assert [cell.label for cell in named["rar-mbpp"].cells][-3:] == ["rar@4k", "self_refine@8k", "rar@8k"]


def test_runs_are_repeated_as_the_papers_say() -> None:
    named = {claim.name: claim for claim in claims()}
    assert {name: named[name].repeats for name in ("rat-gsm8k", "rar-gsm-hard", "rat-minecraft-zero-shot")} == {
        "rat-gsm8k": 3, "rar-gsm-hard": 3, "rat-minecraft-zero-shot": 3,
    }  # fmt: skip
    assert (named["rat-humaneval"].repeats, named["rar-classeval"].repeats) == (5, 5)
    assert all("temperature" in claim.settings for claim in named.values() if claim.repeats > 1), (
        "greedy ones are alike"
    )


def claim(**figures: float) -> Claim:
    return Claim("rar", "sums", "rar", {1000: {"em": figures}}, ["table 1"])


def test_published_figures_stand_beside_measured_ones(tmp_path: Path) -> None:
    for name, scores in {"direct": 1, "rag": 2, "rar": 3, "rar+non_causal": 2}.items():
        write_run(tmp_path / name, name, [1.0] * scores + [0.0] * (4 - scores))
    (report,) = build_reports([tmp_path])
    made = claim(direct=20.0, rag=math.nan, rar=60.5)
    scores, gains = claim_tables([(made, report.rows)])
    published = {row[1]: row[3:5] for row in scores.rows}
    assert published == {
        "direct@1k": ["0.200", "0.250"], "rag@1k": ["–", "0.500"], "rar@1k": ["0.605", "0.750"],
        "rar+non_causal@1k": ["–", "0.500"],
    }  # fmt: skip
    best = ["rar-sums", "rar@1k", "direct", "em", "+0.405", "+0.500"]
    assert [row[:6] for row in gains.rows] == [best], "the best that was published, whatever was measured"
    made = claim(direct=20.0, **{"rar+non_causal": 50.0}, rar=60.5)
    gained = claim_tables([(made, report.rows)])[1].rows
    assert [row[:6] for row in gained] == [best, ["rar-sums", "rar@1k", "rar+non_causal", "em", "+0.105", "+0.250"]]
