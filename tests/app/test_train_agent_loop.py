"""`reground train agent loop`: a generation with a tiny model and a scripted teacher, from the outside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

pytest.importorskip("trl", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

from reground.app.cli import run
from reground.app.cli import train_agent_loop as loops
from reground.app.cli._common import consoles
from reground.app.options_agent import AgentLoop
from reground.core.trajectory import Failure
from reground.evaluation.results import Record, RunConfig, Summary, open_run, summarise
from reground.models.options import ModelOptions, Price
from reground.training.agent.loop import Agent, Choose, Grow, Measure, Rank
from tests.app.test_eval_cli import QUESTIONS
from tests.app.test_train_agent_cli import given  # noqa: F401  a fixture
from tests.training.tiny import tiny_llama

CONFIG = """
generations = 1
validation = "nq_open_test"
validation_limit = 1
test_task = "nq_open_test"
test_limit = 1
no_untrained = true
limit = 2
epochs = 2
max_length = 4096
learning_rate = 0.001
threads = 1

[settings]
samples = 2
max_searches = 1
checks = false
max_tokens = 6
"""


@pytest.mark.timeout(600)
def test_a_configuration_file_runs_the_whole_loop_and_resumes(given, tmp_path: Path, capfd) -> None:  # noqa: F811
    server, options = given
    data = tmp_path / "data" / "nq_open"
    (data / "test.jsonl").write_text((data / "train.jsonl").read_text().replace('"b', '"t').replace("book", "volume"))
    config = tmp_path / "loop.toml"
    config.write_text(CONFIG)
    base = str(tiny_llama(tmp_path / "small", context=4096))
    out = tmp_path / "out"
    loop = ["train", "agent", "loop", "--config", str(config), "--task", "nq_open_train", *options]
    loop += ["--bases", base, "--out", str(out)]
    assert run([*loop, "--dry-run"]) == 0
    assert "gen1: fit" in capfd.readouterr().out
    assert not server.received
    assert run(loop) == 0, capfd.readouterr().err
    said = " ".join(capfd.readouterr().out.split())
    assert "gen1: choose the pass of small-unranked on the validation questions pass " in said
    assert json.loads((out / "gen1" / "small.json").read_text())["scores"]
    page = (out / "report.md").read_text()
    assert "### exact match on the test questions" in page
    assert "| small, generation 1, unranked | 2 | " in page
    passes = {
        name: json.loads((out / "gen1" / f"{name}.json").read_text())["epoch"] for name in ("small", "small-unranked")
    }
    tested = page.partition("### Training data and exact match on the test questions")[2].splitlines()
    assert [line.split(" | ")[3] for line in tested if line.startswith("| small, ")] == [*map(str, passes.values())]
    assert "generations-test.svg" in page
    assert (out / "generations-test.svg").exists()
    paid, kept = len(server.received), (out / "gen1" / "small" / "model.safetensors").stat().st_mtime_ns
    assert run(loop) == 0
    assert len(server.received) == paid, "what is finished is not paid again"
    assert (out / "gen1" / "small" / "model.safetensors").stat().st_mtime_ns == kept
    assert (out / "report.md").read_text() == page
    capfd.readouterr()
    assert run([*loop, "--epochs", "3"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "other settings: epochs (was '2.0'); use them, or give another --out" in said


class Runs:
    """Stands in for the runs of the agent. left: how many of ten questions fail, each time it is tried."""

    def __init__(self, *left: int) -> None:
        self.left = list(left)

    async def grown_by(self, order: AgentLoop, task: object, out: Path, err: object, *, quiet: bool) -> Summary:
        return await self.answered_by(order, task, out / "grown", err, quiet=quiet)

    async def answered_by(self, order: AgentLoop, task: object, run: Path, err: object, *, quiet: bool) -> Summary:
        failed = self.left.pop(0)
        config = RunConfig(task="t", data="d", primary="em", form="phrase", method="search_agent", model=order.model)
        why = Failure(type="ModelError", message="away")
        records = [
            Record(id=f"q{n}~0", example=f"q{n}", repeat=0, failure=why if n < failed else None) for n in range(10)
        ]
        summary = summarise(config, records, expected=10)
        with open_run(run, config) as folder:
            folder.trajectories.touch()
            folder.scores.touch()
            folder.write_summary(summary)
        return summary


def session(monkeypatch: pytest.MonkeyPatch, out: Path, runs: Runs) -> loops._Session:
    """The session of the same command, given again."""
    monkeypatch.setattr(loops, "grown_by", runs.grown_by)
    monkeypatch.setattr(loops, "answered_by", runs.answered_by)
    order = AgentLoop(task="t_train", out=out)
    return loops._Session(
        order, loops.planned(order), dict.fromkeys(("train", "validation", "test")), consoles()[1], True
    )


def test_growing_goes_on_when_trying_failed_questions_again_changes_nothing(tmp_path: Path, monkeypatch) -> None:
    stage, runs = Grow(tmp_path / "gen1", Agent("openai/m"), 1), Runs(9, 2, 2, 0)
    for _ in range(2):
        with pytest.raises(typer.Exit) as ended:
            session(monkeypatch, tmp_path, runs).carry_out(stage)
        assert ended.value.exit_code == 3
    again = session(monkeypatch, tmp_path, runs)
    assert again.carry_out(stage).endswith("; 2 questions failed")
    assert again.failed == 2
    (stage.folder / "ranking.json").touch()
    session(monkeypatch, tmp_path, runs).carry_out(stage)
    assert runs.left == [0], "what was built on is not changed"


def test_a_measurement_with_failed_questions_is_made_again_until_a_model_was_chosen_by_it(
    tmp_path: Path, monkeypatch
) -> None:
    stage, runs = Measure(0, "prompted", "teacher", Agent("openai/m"), "validation"), Runs(2, 1, 0, 3)
    for wanted in (2, 1, 0, 0):
        measuring = session(monkeypatch, tmp_path, runs)
        assert f"; {wanted} failed" in measuring.carry_out(stage)
        assert measuring.failed == wanted
    chosen = replace(stage, agent=Agent("openai/other"))
    session(monkeypatch, tmp_path, runs)._measured(chosen, "other")
    assert session(monkeypatch, tmp_path, runs)._measured(chosen, "other", chosen=True).summary.failed == 3


def test_no_question_is_for_two_things(given, tmp_path: Path) -> None:  # noqa: F811
    """Also where validation and test name one benchmark, or the training split itself."""
    data = tmp_path / "data"
    (data / "nq_open" / "test.jsonl").write_text(
        (data / "nq_open" / "train.jsonl").read_text().replace("book", "volume")
    )
    for validation, test in (("nq_open_test", "nq_open_test"), ("nq_open_train", "nq_open_train")):
        order = AgentLoop(
            task="nq_open_train", data=data, limit=2, validation=validation, test_task=test, validation_limit=2,
            test_limit=2,
        )  # fmt: skip
        tasks = loops.tasks_of(order)
        drawn = [each.question for task in tasks.values() for each in loops.questions_of(order, task)]
        assert len(set(drawn)) == 6
    alone = loops.tasks_of(replace(order, validation=None, test_task="nq_open_test"))["test"]
    assert len(alone.examples()) == len(QUESTIONS)


def test_a_measurement_is_of_its_own_task_and_a_student_has_no_adapter_or_price_of_the_teacher(tmp_path: Path) -> None:
    options = ModelOptions(adapter=tmp_path, price=Price(1, 1, 1), base_url="http://localhost:1")
    order = AgentLoop(
        task="t_train", out=tmp_path, model="hf/large", bases="large", test_task="bamboogle", validation="hotpotqa",
        test_limit=7, model_options=options,
    )  # fmt: skip
    plan = loops.planned(order)
    planned = loops._Session(order, plan, {}, consoles()[1], True)
    stages = [each.measure if isinstance(each, Choose) else each for each in plan.stages()]
    measured = [(each, planned._measuring(each, tmp_path)) for each in stages if isinstance(each, Measure)]
    assert {(each.split, own.task, own.limit) for each, own in measured} == {
        ("test", "bamboogle", 7), ("validation", "hotpotqa", 40),
    }  # fmt: skip
    plain = replace(options, adapter=None, price=None)
    for each, own in measured:
        assert own.model_options == (options if each.data == "prompted" else plain), each.data
    grown = [planned._using(each.agent, tmp_path, 1).model_options for each in stages if isinstance(each, Grow)]
    assert grown == [options, plain]


@pytest.mark.parametrize(("ranker", "same"), [(None, True), ("openai/m", True), ("openai/other", False)])
def test_another_ranker_has_no_adapter_or_price_of_the_teacher(ranker: str | None, same: bool, tmp_path: Path) -> None:
    options = ModelOptions(adapter=tmp_path, price=Price(1, 1, 1))
    order = AgentLoop(task="t_train", out=tmp_path, model="openai/m", ranker=ranker, model_options=options)
    ranking = loops._Session(order, loops.planned(order), {}, consoles()[1], True)._ranking(Rank(tmp_path))
    assert ranking.model == (ranker or "openai/m")
    assert ranking.model_options == (options if same else ModelOptions())
