"""`reground train agent loop`: a generation with a tiny model and a scripted teacher, from the outside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

pytest.importorskip("transformers", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

from reground.app.cli import run
from reground.app.cli import train_agent as loops
from reground.app.cli.train_agent import AgentLoop
from reground.core.errors import ConfigurationError
from reground.core.trajectory import Failure
from reground.evaluation.results import Record, RunConfig, Summary, open_run, summarise
from reground.models.options import ModelOptions, Price
from reground.training.agent import Agent
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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_configuration_file_runs_the_whole_loop_and_resumes(given, tmp_path: Path, capfd) -> None:  # noqa: F811
    server, options = given
    data = tmp_path / "data" / "nq_open"
    (data / "test.jsonl").write_text((data / "train.jsonl").read_text().replace('"b', '"t').replace("book", "volume"))
    config = tmp_path / "loop.toml"
    base = str(tiny_llama(tmp_path / "small", context=4096))
    config.write_text(f"bases = {base!r}\n{CONFIG}")
    out = tmp_path / "out"
    loop = ["train", "agent", "loop", "--config", str(config), "--task", "nq_open_train", *options]
    loop += ["--out", str(out)]
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
    tested = page.partition("### exact match on the test questions")[2].splitlines()
    assert [line.split(" | ")[3] for line in tested if line.startswith("| small, ")] == [*map(str, passes.values())]
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

    def grown_by(self, order: AgentLoop, task: object, out: Path) -> Summary:
        return self.answered_by(order, task, out / "grown")

    def answered_by(self, order: AgentLoop, task: object, run: Path) -> Summary:
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


def again(monkeypatch: pytest.MonkeyPatch, out: Path, runs: Runs) -> loops.Loop:
    """The loop of the same command, given again."""
    monkeypatch.setattr(loops, "grown_by", runs.grown_by)
    monkeypatch.setattr(loops, "answered_by", runs.answered_by)
    tasks = dict.fromkeys(("train", "validation", "test"))
    return loops.Loop(AgentLoop(task="t_train", out=out), tasks)


def test_growing_goes_on_when_trying_failed_questions_again_changes_nothing(tmp_path: Path, monkeypatch, capfd) -> None:
    folder, agent, runs = tmp_path / "gen1", Agent("openai/m"), Runs(9, 2, 2, 0)
    for _ in range(2):
        with pytest.raises(typer.Exit) as ended:
            again(monkeypatch, tmp_path, runs).grow(folder, agent, 1)
        assert ended.value.exit_code == 3
    loop = again(monkeypatch, tmp_path, runs)
    loop.grow(folder, agent, 1)
    assert capfd.readouterr().out.endswith("; 2 questions failed\n")
    assert loop.failed == 2
    (folder / "ranking.json").touch()
    again(monkeypatch, tmp_path, runs).grow(folder, agent, 1)
    assert runs.left == [0], "what was built on is not changed"


def test_a_measurement_with_failed_questions_is_made_again_until_a_model_was_chosen_by_it(
    tmp_path: Path, monkeypatch
) -> None:
    agent, runs = Agent("openai/m"), Runs(2, 1, 0, 3)
    for wanted in (2, 1, 0, 0):
        loop = again(monkeypatch, tmp_path, runs)
        loop.measure(agent, "validation")
        assert loop.failed == wanted
    again(monkeypatch, tmp_path, runs).results_of(replace(agent, data="prompted, epoch2"), "validation")
    assert again(monkeypatch, tmp_path, runs).results_of(agent, "validation", 2).summary.failed == 3


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


def planned(capfd: pytest.CaptureFixture[str], **changed: object) -> list[str]:
    usual = {"task": "t_train", "out": Path("out"), "model": "openai/large", "bases": "own/medium,small"}
    order = AgentLoop(**{**usual, "validation": None, "test_task": "bamboogle", "dry_run": True, **changed})
    loops.run_loop(order)
    return capfd.readouterr().out.splitlines()


def test_every_generation_fits_all_bases_afresh_and_the_first_grows_the_next(capfd) -> None:
    assert planned(capfd, repeats=4) == [
        "measure teacher (prompted) on the test questions",
        "measure medium (untrained) on the test questions",
        "measure medium (untrained, one example) on the test questions",
        "measure small (untrained) on the test questions",
        "measure small (untrained, one example) on the test questions",
        "gen1: grow with openai/large, 1 a question",
        "gen1: rank the samples of each step",
        "gen1: make the data mixture, by ranking",
        "gen1: make the data unranked, by chance",
        "gen1: fit own/medium on mixture as medium",
        "measure medium (generation 1) on the test questions",
        "gen1: fit small on mixture as small",
        "measure small (generation 1) on the test questions",
        "gen1: fit small on unranked as small-unranked",
        "measure small (generation 1, unranked) on the test questions",
        "gen2: grow with hf/out/gen1/medium, 4 a question",
        "gen2: rank the samples of each step",
        "gen2: make the data mixture, by ranking",
        "gen2: make the data unranked, by chance",
        "gen2: fit own/medium on mixture as medium",
        "measure medium (generation 2) on the test questions",
        "gen2: fit small on mixture as small",
        "measure small (generation 2) on the test questions",
        "gen2: fit small on unranked as small-unranked",
        "measure small (generation 2, unranked) on the test questions",
    ]


def test_a_fit_is_chosen_on_the_validation_questions_and_then_tested(capfd) -> None:
    few = {"generations": 1, "bases": "small", "by": "perplexity", "no_control": True, "no_untrained": True}
    assert planned(capfd, validation="nq_open_test", **few)[-5:] == [
        "gen1: grow with openai/large, 1 a question",
        "gen1: make the data mixture, by perplexity",
        "gen1: fit small on mixture as small",
        "gen1: choose the pass of small on the validation questions",
        "measure small (generation 1) on the test questions",
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"bases": ""}, "at least one base"),
        ({"bases": "a/small,b/small"}, "two bases have the same name"),
        ({"test_task": None}, "nothing would be measured"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_says_why(changed, why, capfd) -> None:
    with pytest.raises(ConfigurationError, match=why):
        planned(capfd, **changed)


def test_a_measurement_is_of_its_own_task_and_a_student_has_no_adapter_or_price_of_the_teacher(tmp_path: Path) -> None:
    options = ModelOptions(adapter=tmp_path, price=Price(1, 1, 1), base_url="http://localhost:1")
    order = AgentLoop(
        task="t_train", out=tmp_path, model="hf/large", bases="large", test_task="bamboogle", validation="hotpotqa",
        test_limit=7, model_options=options,
    )  # fmt: skip
    loop = loops.Loop(order)
    plain = replace(options, adapter=None, price=None)
    for agent, wanted in ((Agent("hf/large"), options), (Agent("hf/large", shots=0), plain)):
        assert loop.using(agent, tmp_path, 1).model_options == wanted
        for split, task, limit in (("test", "bamboogle", 7), ("validation", "hotpotqa", 40)):
            own = loop.measuring(agent, split, tmp_path)
            assert (own.task, own.limit, own.model_options) == (task, limit, wanted)


@pytest.mark.parametrize(("ranker", "same"), [(None, True), ("openai/m", True), ("openai/other", False)])
def test_another_ranker_has_no_adapter_or_price_of_the_teacher(ranker: str | None, same: bool, tmp_path: Path) -> None:
    options = ModelOptions(adapter=tmp_path, price=Price(1, 1, 1))
    order = AgentLoop(task="t_train", out=tmp_path, model="openai/m", ranker=ranker, model_options=options)
    ranking = loops.Loop(order).ranking(tmp_path)
    assert ranking.model == (ranker or "openai/m")
    assert ranking.model_options == (options if same else ModelOptions())
