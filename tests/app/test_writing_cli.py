"""The creative-writing tasks from the outside: RAT writes, the run is reported, and a judge decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.evaluation.results import find_runs
from reground.testing.openai_server import MockOpenAI
from tests.servers import model_of, serving

OUTLINE = "## 1860 to 1861\nLincoln was elected in 1859.\n\n## 1865\nLee gave up at Appomattox."
REVISED = "## 1860 to 1861\nLincoln was elected in 1860 [1].\n\n## 1865\nLee gave up at Appomattox."
ARTICLE = (
    "# The war\n\n## 1860 to 1861\nIn 1860 Abraham Lincoln was elected [1].\n\n## 1863\nThe army met at Gettysburg.\n\n"
    "## 1865\nLee gave up at Appomattox."
)


def say(body: dict) -> str:
    asked = body["messages"][-1]["content"]
    if "mark = " in asked:
        assert "# The war" in asked
        assert "reference" not in asked
        return "# well ordered\nmark = 4"
    if "Follow the thoughts" in asked:
        assert "Lincoln was elected in 1860 [1]" in asked, "the text is written from the revised parts"
        return ARTICLE
    if "revised text only" in asked:
        first, _, _ = REVISED.partition("\n\n")
        return REVISED if "Appomattox" in asked else first
    if "Write only the query" in asked:
        return "Lincoln election"
    return OUTLINE if "blank line between the steps" in asked else ARTICLE


@pytest.fixture
def options(home: Path):
    """The model and the documents of every command."""
    (home / "docs").mkdir()
    (home / "docs" / "lincoln.md").write_text("# Lincoln\n\nAbraham Lincoln was elected president in 1860.\n")
    with serving(MockOpenAI(say, models=("mock", "judge"))) as server:
        yield [*model_of(server), "--corpus", "docs", "-q"]


def test_a_timeline_is_written_counted_and_judged(options, capfd) -> None:
    made = ["eval", "--task", "writing", "--ids", "timeline-american-civil-war", "--method", "rat", "--out", "run"]
    assert run([*made, *options]) == 0, capfd.readouterr().err
    (folder,) = find_runs([Path("run")])
    (trajectory,) = folder.solved()
    assert trajectory.answer is not None
    assert trajectory.answer.text == ARTICLE
    calls = [step.name for step in trajectory.steps if step.kind != "note"]
    assert calls == ["draft", *["query", "retrieve", "revise"] * 2, "answer"]
    (record,) = folder.records().values()
    values = {name: score.value for name, score in record.scores.items()}
    assert values == {"quality": None, "form kept": 1.0, "words": 23, "faithfulness": pytest.approx(1 / 3)}
    report = (Path("run") / "report.md").read_text()
    assert "1 answered but unscored (people or a judge decide it: reground judge RUNS" in report
    assert run(["judge", "run", "--judges", "openai/judge", *options[2:4]]) == 0, capfd.readouterr().err
    assert "| run | 0.750 |" in (Path("run") / "judges.md").read_text()


def test_a_judge_makes_quality_a_number(options, capfd) -> None:
    made = ["compare", "--task", "writing_timeline", "--methods", "direct,rat", "--budgets", "none", "--limit", "1"]
    assert run([*made, *options, "--judge", "openai/judge", "--out", "both"]) == 0, capfd.readouterr().err
    for name in ("direct", "rat"):
        summary = json.loads((Path("both") / f"{name}@none" / "summary.json").read_text())
        assert summary["primary"] == "auto-eval"
        config = json.loads((Path("both") / f"{name}@none" / "config.json").read_text())
        assert config["form"] == "article"


def test_without_a_judge_no_verdict_is_given_on_two_methods(options, capfd) -> None:
    made = ["compare", "--task", "writing_biography", "--methods", "direct,cot", "--budgets", "none", "--limit", "1"]
    assert run([*made, *options, "--out", "both"]) == 0, capfd.readouterr().err
    out = capfd.readouterr().out
    assert "Take " not in out
    assert "people or a judge decide it" in " ".join(out.split())
