from __future__ import annotations

import itertools
import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import Answer
from reground.core.errors import ConfigurationError, DataError
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.trajectory import Failure, GenerateStep, NoteStep, RetrieveStep, Trajectory
from reground.evaluation.results import (
    Record,
    RunConfig,
    Stage,
    check_run,
    find_runs,
    open_run,
    pass_at_k,
    read_records,
    read_run,
    stages_of,
    versions,
)
from reground.evaluation.runner import EvalSettings, evaluate
from reground.evaluation.task import Score
from reground.models.scripted import ScriptedModel
from tests.evaluation.fakes import Chain, SumTask, adds

IDENTITY = {"task": "sums", "data": "abc", "primary": "exact match", "form": "phrase", "method": "direct", "model": "m"}
CONFIG = RunConfig(**IDENTITY, settings={"k": 3}, limit=5)


def trajectory(id: str) -> Trajectory:
    return Trajectory(id=id, question="?", method="direct", answer=Answer(text="ü"))


def record(id: str) -> Record:
    return Record(id=id, example=id, repeat=0, scores={"exact match": Score(value=1.0)})


def filled(path: Path, ids: str = "abc") -> Path:
    with open_run(path, CONFIG) as folder:
        for name in ids:
            folder.append(trajectory(name))
            folder.append_record(record(name))
    return path


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    run = read_run(filled(tmp_path / "run"))
    assert run.config == CONFIG
    assert list(run.records()) == ["a", "b", "c"]
    assert [t.id for t in run.solved()] == ["a", "b", "c"]
    assert run.records()["a"] == record("a")
    assert json.loads((run.path / "versions.json").read_text()) == versions()
    assert {"python", "platform", "pydantic"} <= versions().keys()
    assert run.summary() is None


@pytest.mark.parametrize("name", ["trajectories.jsonl", "scores.jsonl"])
@pytest.mark.parametrize("cut", [1, 2, 60])
def test_a_half_written_last_line_is_set_aside_and_named(tmp_path: Path, name: str, cut: int) -> None:
    path = filled(tmp_path / "run")
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole[:-cut])
    with open_run(path, CONFIG) as folder:
        left = [r.id for r in folder.records().values()] if name == "scores.jsonl" else [t.id for t in folder.solved()]
        if cut == 1:  # only the line end is missing: the line is whole
            assert (left, folder.notices) == (["a", "b", "c"], [])
            assert (path / name).read_bytes() == whole
        else:
            assert left == ["a", "b"]
            assert len(folder.notices) == 1
            assert f"{name}:3: " in folder.notices[0]
            assert (path / f"{name}.damaged").read_bytes().strip() == whole.splitlines()[2][: 1 - cut or None]


def test_a_reader_leaves_a_line_that_is_being_written_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "run")
    scores = path / "scores.jsonl"
    torn = scores.read_bytes()[:-10]
    scores.write_bytes(torn)
    assert list(read_run(path).records()) == ["a", "b"]
    assert scores.read_bytes() == torn


DEEP = b'{"id": "b", "metadata": ' + b"[" * 9000 + b"]" * 9000 + b"}\n"


@pytest.mark.parametrize("name", ["trajectories.jsonl", "scores.jsonl"])
@pytest.mark.parametrize("broken", [b'{"id": 7}\n', b'{"id": "\xff"}\n', DEEP, b"\x00\n"])
def test_a_broken_line_is_named_and_set_aside(tmp_path: Path, name: str, broken: bytes) -> None:
    path = filled(tmp_path / "run")
    lines = (path / name).read_bytes().splitlines(keepends=True)
    lines[1] = broken
    (path / name).write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=rf"{name}:2: "):
        list(read_run(path).solved())
        read_run(path).records()
    with open_run(path, CONFIG) as folder:
        assert f"{name}:2: the line cannot be read and has been set aside in {name}.damaged" in folder.notices[0]
        left = [r.id for r in folder.records().values()] if name == "scores.jsonl" else [t.id for t in folder.solved()]
        assert left == ["a", "c"]
    assert (path / f"{name}.damaged").read_bytes() == broken


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "other"}, 'model was "m", now "other"'),
        ({"settings": {"k": 5}}, "settings.k was 3, now 5"),
        ({"settings": {"k": 3, "new": True}}, "settings.new was null, now true"),
        ({"data": "def"}, "data was"),
        ({"limit": 4}, "limit was 5, now 4"),
        ({"seed": 1}, "seed was 0, now 1"),
    ],
)
def test_another_configuration_is_refused_with_the_difference(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = filled(tmp_path / "run")
    other = CONFIG.model_copy(update=change)
    with pytest.raises(ConfigurationError, match="contains another run") as refused, open_run(path, other):
        pass
    assert said in str(refused.value)
    with pytest.raises(ConfigurationError, match="contains another run"):
        check_run(path, other)
    assert read_run(path).config == CONFIG
    assert len(read_run(path).records()) == 3


def test_a_run_in_which_nothing_was_answered_or_paid_may_become_another(tmp_path: Path) -> None:
    other, away = CONFIG.model_copy(update={"model": "other"}), Failure(type="ModelError", message="no such model")
    for change, lost in (({}, False), ({"failure": None}, True), ({"usage": Usage(calls=1)}, True)):
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        with open_run(path, CONFIG) as folder:
            folder.append_record(Record(**{"id": "a", "example": "a", "repeat": 0, "failure": away, **change}))
        with pytest.raises(ConfigurationError) if lost else nullcontext():
            check_run(path, other)
            with open_run(path, other) as folder:
                assert not folder.records(), "what failed is tried again"
    (tmp_path / "0" / "trees" / "q.json").mkdir(parents=True)
    with pytest.raises(ConfigurationError):
        check_run(tmp_path / "0", CONFIG)


def test_a_foreign_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ConfigurationError, match=r"thesis\.txt"), open_run(tmp_path, CONFIG):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    for path, why in ((tmp_path / "thesis.txt", "no run folder"), (tmp_path / "thesis.txt" / "run", "cannot make")):
        with pytest.raises(ConfigurationError, match=why), open_run(path, CONFIG):
            pass


def test_results_without_their_configuration_are_never_overwritten(tmp_path: Path) -> None:
    path = filled(tmp_path / "run")
    (path / "config.json").unlink()
    before = (path / "scores.jsonl").read_bytes()
    with pytest.raises(ConfigurationError, match=r"it holds scores\.jsonl and no config\.json"):
        check_run(path, CONFIG)
    assert (path / "scores.jsonl").read_bytes() == before
    with pytest.raises(DataError, match="not a run folder"):
        read_run(path)


def test_a_start_that_was_killed_before_it_began_is_a_start(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").touch()
    half = run / f"config.json.{os.getpid()}-0a1b2c3d.part"
    half.write_text('{"for')
    filled(run)
    assert len(read_run(run).records()) == 3 and not half.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{\n"format": 1,\n"task": }', r"config\.json: Invalid JSON: .*line 3"),
        (b'{"format": 2}', r"config\.json: format: Input should be 1"),
        (b'{"format": 1, "task": "sums"}', r"config\.json: data: "),
        (b"\xff\xfe", r"config\.json: "),
        (b"[" * 100_000, r"config\.json: "),
    ],
)
def test_a_broken_configuration_is_named(tmp_path: Path, text: bytes, said: str) -> None:
    path = filled(tmp_path / "run")
    (path / "config.json").write_bytes(text)
    with pytest.raises(DataError, match=said):
        check_run(path, CONFIG)


def test_two_processes_cannot_work_on_one_folder(tmp_path: Path) -> None:
    with (
        open_run(tmp_path / "run", CONFIG),
        pytest.raises(ConfigurationError, match="another process"),
        open_run(tmp_path / "run", CONFIG),
    ):
        pass
    with open_run(tmp_path / "run", CONFIG) as folder:
        assert folder.notices == []


def test_runs_are_found_in_a_folder_of_them(tmp_path: Path) -> None:
    filled(tmp_path / "all" / "b")
    filled(tmp_path / "all" / "a")
    (tmp_path / "empty").mkdir()
    assert [run.path.name for run in find_runs([tmp_path / "all", tmp_path / "all" / "b"])] == ["a", "b", "b"]
    with pytest.raises(DataError, match="no run folder here"):
        find_runs([tmp_path / "empty"])


async def test_every_cut_of_either_file_is_healed_without_a_call(tmp_path: Path) -> None:
    settings = EvalSettings(method="chain", model="scripted", limit=None)
    task, out = SumTask(3), tmp_path / "run"
    await evaluate(task, Chain(ScriptedModel(adds)), settings, out)
    for name in ("trajectories.jsonl", "scores.jsonl"):
        whole = (out / name).read_bytes()
        for cut in (2, 40, len(whole) // 2, len(whole)):
            (out / name).write_bytes((out / name).read_bytes()[:-cut])
            silent = ScriptedModel([])
            result = await evaluate(task, Chain(silent), settings, out)
            assert silent.calls == []
            assert result.summary.metrics["exact match"].mean == 1.0
            assert sorted(t.id for t in read_run(out).solved()) == ["q0~0", "q1~0", "q2~0"]
            assert sorted(r.id for r in read_records(out / "scores.jsonl")) == ["q0~0", "q1~0", "q2~0"]


def call(name: str, elapsed: float, prompt: int = 10, completion: int = 2) -> GenerateStep:
    reply = Reply(text="x", usage=Usage(calls=1, prompt=prompt, completion=completion))
    message = Message(role="user", content="x")
    return GenerateStep(
        span="", ordinal=0, name=name, elapsed=elapsed, model="m", messages=(message,), sampling=Sampling(),
        replies=(reply,),
    )  # fmt: skip


def search(elapsed: float) -> RetrieveStep:
    passages = (Passage(id="a", text="a"),)
    return RetrieveStep(
        span="", ordinal=0, name="retrieve", elapsed=elapsed, retriever="r", query="q", k=1, passages=passages
    )


def staged(*steps: GenerateStep | RetrieveStep | NoteStep) -> Trajectory:
    return Trajectory(id="q", question="q", method="m", steps=steps)


def test_the_time_between_two_ends_counts_for_the_later_step() -> None:
    note = NoteStep(span="", ordinal=1, name="span", elapsed=2.5)
    found = stages_of(staged(call("draft", 2.0), note, search(2.5), call("revise", 4.0), search(4.5)))
    assert found == {
        "draft": Stage(calls=1, prompt=10, completion=2, seconds=2.0),
        "retrieve": Stage(calls=2, seconds=1.0),
        "revise": Stage(calls=1, prompt=10, completion=2, seconds=1.5),
    }


@st.composite
def counts(draw: st.DrawFn, most: int) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts(8))
def test_it_is_the_share_of_draws_that_hold_a_right_program(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
