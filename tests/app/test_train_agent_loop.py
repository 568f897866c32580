"""`reground train agent loop`: a generation with a tiny model and a scripted teacher, from the outside."""

from __future__ import annotations

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
from reground.evaluation.results import Record, RunConfig, Summary, open_run, summarise, write_stored
from reground.models.options import ModelOptions, Price
from tests.app.test_train_agent_cli import given  # noqa: F401  a fixture
from tests.evaluation.fakes import SumTask
from tests.training.tiny import tiny_llama

CONFIG = """
generations = 1
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
    config = tmp_path / "loop.toml"
    base = str(tiny_llama(tmp_path / "small", context=4096))
    config.write_text(f"bases = {base!r}\n{CONFIG}")
    out = tmp_path / "out"
    loop = ["train", "agent", "loop", "--config", str(config), "--task", "nq_open_train", *options]
    loop += ["--out", str(out)]
    assert run([*loop, "--dry-run"]) == 0
    assert "gen1: fit" in capfd.readouterr().out
    assert not server.received
    assert run([*loop, "--model", "openai/absent"]) == 3
    wrong, empty = tmp_path / "wrong.toml", tmp_path / "empty" / "small"
    empty.mkdir(parents=True)
    for key in ('ranker = "openai/absent"', "batch = 3\nepochs = 1"):  # what was wrong is corrected by the next command
        wrong.write_text(f"bases = {str(empty)!r}\n{key}\n{CONFIG.replace('epochs = 2', '')}")
        assert run([*loop, "--config", str(wrong)]) in (1, 2)
    assert run(loop) == 0, capfd.readouterr().err
    paid, kept = len(server.received), (out / "gen1" / "small" / "model.safetensors").stat().st_mtime_ns
    assert run(loop) == 0
    assert len(server.received) == paid, "what is finished is not paid again"
    assert (out / "gen1" / "small" / "model.safetensors").stat().st_mtime_ns == kept
    capfd.readouterr()
    assert run([*loop, "--epochs", "3"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "other settings: epochs (was '2.0'); use them, or give another --out" in said


class Runs:
    """Stands in for the runs of the agent. left: how many of ten questions fail, each time it is tried."""

    def __init__(self, *left: int) -> None:
        self.left = list(left)

    def grown_by(self, order: AgentLoop, task: object, out: Path) -> Summary:
        failed = self.left.pop(0)
        config = RunConfig(task="t", data="d", primary="em", form="phrase", method="search_agent", model=order.model)
        why = Failure(type="ModelError", message="away")
        records = [
            Record(id=f"q{n}~0", example=f"q{n}", repeat=0, failure=why if n < failed else None) for n in range(10)
        ]
        summary = summarise(config, records, expected=10)
        with open_run(out / "grown", config) as folder:
            folder.trajectories.touch()
            folder.scores.touch()
            write_stored(folder.path / "summary.json", summary)
        return summary


def test_growing_goes_on_when_trying_failed_questions_again_changes_nothing(tmp_path: Path, monkeypatch, capfd) -> None:
    runs, order = Runs(9, 2, 2, 0), AgentLoop(task="t_train", out=tmp_path)
    monkeypatch.setattr(loops, "grown_by", runs.grown_by)
    for _ in range(2):
        with pytest.raises(typer.Exit) as ended:
            loops.grow_again(order, SumTask())
        assert ended.value.exit_code == 3
    assert loops.grow_again(order, SumTask()) == 2
    assert capfd.readouterr().out.endswith("; 2 questions failed\n")
    (tmp_path / "ranking.json").touch()
    assert loops.grow_again(order, SumTask()) == 2
    assert runs.left == [0], "what was built on is not changed"


def planned(capfd: pytest.CaptureFixture[str], **changed: object) -> list[str]:
    usual = {"task": "t_train", "out": Path("out"), "model": "openai/large", "bases": "own/medium,small"}
    order = AgentLoop(**{**usual, "dry_run": True, **changed})
    loops.run_loop(order)
    return capfd.readouterr().out.splitlines()


def test_every_generation_fits_all_bases_afresh_and_the_first_grows_the_next(capfd) -> None:
    generation = [
        "rank the samples of each step",
        "make the mixture, by ranking",
        "fit own/medium as medium",
        "fit small as small",
    ]
    assert planned(capfd, repeats=4) == [
        "gen1: grow with openai/large, 1 a question",
        *(f"gen1: {stage}" for stage in generation),
        "gen2: grow with hf/out/gen1/medium, 4 a question",
        *(f"gen2: {stage}" for stage in generation),
    ]
    assert planned(capfd, generations=1, bases="small", by="perplexity") == [
        "gen1: grow with openai/large, 1 a question",
        "gen1: make the mixture, by perplexity",
        "gen1: fit small as small",
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"bases": ""}, "at least one base"), ({"bases": "a/small,b/small"}, "two bases have the same name")],
)
def test_a_plan_that_cannot_be_carried_out_says_why(changed, why, capfd) -> None:
    with pytest.raises(ConfigurationError, match=why):
        planned(capfd, **changed)


def test_a_student_has_no_exemplars_and_no_adapter_or_price_of_the_teacher(tmp_path: Path) -> None:
    options = ModelOptions(adapter=tmp_path, price=Price(1, 1, 1), base_url="http://localhost:1")
    order = AgentLoop(task="t_train", out=tmp_path, model="hf/large", bases="large", model_options=options)
    teacher, student = (loops.growing_of(order, number, "hf/large") for number in (1, 2))
    assert (teacher.model_options, dict(teacher.settings)) == (options, {})
    assert (student.model_options, student.settings) == (replace(options, adapter=None, price=None), {"shots": 0})


@pytest.mark.parametrize(("ranker", "same"), [(None, True), ("openai/m", True), ("openai/other", False)])
def test_another_ranker_has_no_adapter_or_price_of_the_teacher(ranker: str | None, same: bool, tmp_path: Path) -> None:
    options = ModelOptions(adapter=tmp_path, price=Price(1, 1, 1))
    order = AgentLoop(task="t_train", out=tmp_path, model="openai/m", ranker=ranker, model_options=options)
    ranking = loops.ranking_of(order, tmp_path)
    assert ranking.model == (ranker or "openai/m")
    assert ranking.model_options == (options if same else ModelOptions())
