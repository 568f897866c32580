"""Runs whose journal is in PostgreSQL: their names, restarts and kills, and commands from the outside."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import reground
from reground.app.cli import run
from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.runner import EvalSettings, evaluate
from reground.models.scripted import ScriptedModel
from reground.postgres.runs import InDatabase
from reground.testing.openai_server import MockOpenAI
from tests.data import ROOT
from tests.evaluation.fakes import Adder, Chain, SumTask, adds
from tests.killing import _KEY, Bell, rung_or_ended
from tests.postgres_server import PASSWORD, QUOTED, Postgres
from tests.servers import serving

SETTINGS = EvalSettings(method="chain", model="scripted", limit=None, concurrency=3)
KILLS = 3
QUESTIONS = 12


def names(postgres: Postgres, url: str) -> list[str]:
    return [name for (name,) in postgres.rows(url, "SELECT DISTINCT run FROM reground_effects ORDER BY run")]


async def test_a_run_is_recorded_in_the_database_and_replayed(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.fresh()
    method = Chain(ScriptedModel(adds), steps=2)
    result = await evaluate(SumTask(3), method, SETTINGS, tmp_path / "run", journals=InDatabase(url))
    assert result.summary.finished
    assert not (tmp_path / "run" / "journal.sqlite").exists()
    (tmp_path / "run" / "trajectories.jsonl").unlink()
    (tmp_path / "run" / "scores.jsonl").unlink()
    silent = Chain(ScriptedModel([]), steps=2)
    again = await evaluate(SumTask(3), silent, SETTINGS, tmp_path / "run", journals=InDatabase(url))
    assert again.summary.metrics["exact match"].mean == 1.0
    (name,) = names(postgres, url)
    assert name.startswith("run-")
    assert json.loads((tmp_path / "run" / "journal.json").read_text())["run"] == name


async def test_two_folders_of_the_same_run_have_names_of_their_own(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.fresh()
    calls = []
    for folder in ("a/run", "b/run"):
        model = ScriptedModel(adds)
        await evaluate(SumTask(2), Chain(model), SETTINGS, tmp_path / folder, journals=InDatabase(url))
        calls.append(len(model.calls))
    assert calls == [2, 2]
    assert len(names(postgres, url)) == 2


async def test_a_named_run_is_taken_up_from_another_folder(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.fresh()

    async def paid(folder: str, settings: EvalSettings = SETTINGS) -> int:
        model = ScriptedModel(adds)
        await evaluate(SumTask(4), Chain(model), settings, tmp_path / folder, journals=InDatabase(url, name="nightly"))
        return len(model.calls)

    few = EvalSettings(**{**vars(SETTINGS), "limit": 3})
    assert await paid("here", few) == 3
    assert await paid("there") == 1, "a larger limit is the same run"
    assert await paid("other", EvalSettings(**{**vars(SETTINGS), "seed": 1})) == 4
    assert [name.partition("/")[0] for name in names(postgres, url)] == ["nightly", "nightly"]


async def test_a_folder_stays_with_the_journal_it_began_with(postgres: Postgres, tmp_path: Path) -> None:
    url, task = postgres.fresh(), SumTask(1)

    async def begun(folder: str, **where: Any) -> None:
        await evaluate(task, Chain(ScriptedModel(adds)), SETTINGS, tmp_path / folder, **where)

    await begun("file")
    with pytest.raises(ConfigurationError, match=r"has its journal in journal\.sqlite: give --journal sqlite"):
        await begun("file", journals=InDatabase(url))
    await begun("shared", journals=InDatabase(url))
    with pytest.raises(ConfigurationError, match="has its journal in PostgreSQL"):
        await begun("shared")
    with pytest.raises(ConfigurationError, match="has its journal in another database than postgresql://127"):
        await begun("shared", journals=InDatabase(postgres.fresh()))
    with pytest.raises(ConfigurationError, match=r"is the run 'shared-.*' of the journal, not 'mine'"):
        await begun("shared", journals=InDatabase(url, name="mine"))
    (tmp_path / "shared" / "journal.json").write_text("{}")
    with pytest.raises(DataError, match=r"journal\.json: does not say where the journal is"):
        await begun("shared", journals=InDatabase(url))


async def test_processes_that_begin_a_folder_at_once_agree_on_its_name(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.fresh()
    opening = (InDatabase(url).open(tmp_path / "run" / "journal.sqlite", "r", "i") for _ in range(8))
    kept = await asyncio.gather(*opening)
    assert len({each.run for each in kept}) == 1
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["journal.json"]
    for each in kept:
        each.journal.close()


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\nb", "x" * 201])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="a run's name is"):
        InDatabase("postgresql://localhost/x", name=name)


def grown(bill: Path, lines: int) -> None:
    """Wait until a file has this many more lines."""

    def length() -> int:
        return len(bill.read_text().splitlines()) if bill.exists() else 0

    until = length() + lines
    while length() < until:
        time.sleep(0.01)


async def test_a_server_that_restarts_loses_no_run_and_no_call_is_paid_twice(
    postgres: Postgres, tmp_path: Path
) -> None:
    url, bill = postgres.fresh(), tmp_path / "bill"
    method = Chain(Adder(bill, seconds=0.02), steps=4, branches=2)
    running = asyncio.create_task(evaluate(SumTask(8), method, SETTINGS, tmp_path / "run", journals=InDatabase(url)))
    for mode in ("fast", "immediate"):
        await asyncio.to_thread(grown, bill, 8)
        await asyncio.to_thread(postgres.stop, mode)
        await asyncio.sleep(0.2)
        assert not running.done()
        await asyncio.to_thread(postgres.start)
    result = await running
    assert result.summary.metrics["exact match"].mean == 1.0
    asked = bill.read_text().splitlines()
    assert len(asked) == len(set(asked)) == 8 * 6
    assert postgres.rows(url, "SELECT count(*) FROM reground_effects") == [(8 * 6,)]


# From the outside.


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    lines = ({"id": f"q{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(QUESTIONS))
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture
def model() -> Iterator[MockOpenAI]:
    with serving(MockOpenAI(lambda body: "Answer: 4")) as server:
        yield server


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-tests")
    monkeypatch.delenv("REGROUND_JOURNAL", raising=False)
    monkeypatch.delenv("PGPASSWORD", raising=False)


def evaluation(server: MockOpenAI, sums: Path, *more: str) -> list[str]:
    return ["eval", "--questions", str(sums), "--method", "direct", "--model", "openai/mock", "--base-url", server.url,
            "--quiet", *more]  # fmt: skip


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "reground", *command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def test_kill_9_pays_for_no_recorded_call_again_not_even_from_another_folder(
    postgres: Postgres, sums: Path
) -> None:
    url, chance = postgres.fresh(), random.Random(3)
    bell = Bell(lambda body, key: "Answer: 4")
    paid: dict[str, int] = {}

    def recorded() -> list[str]:
        there = postgres.rows(url, "SELECT to_regclass('reground_effects') IS NOT NULL")
        rows = postgres.rows(url, "SELECT result FROM reground_effects") if there == [(True,)] else []
        return [key for (result,) in rows for key in _KEY.findall(result)]

    async with MockOpenAI(bell, latency=0.03) as server:
        command = evaluation(
            server, sums, "--method", "self_refine", "--journal", url, "--journal-run", "killed", "--concurrency", "2"
        )
        for kill in range(KILLS):
            bell.ring_after(chance.randint(2, 6))
            async with process(*command, "--out", f"run{kill % 2}") as running:
                await rung_or_ended(bell, running)
                await asyncio.sleep(chance.uniform(0, 0.02))
                assert running.returncode is None
                running.kill()
                await running.wait()
            for key in recorded():
                paid.setdefault(key, bell.counts[key])
        async with process(*command, "--out", "run0") as running:
            assert await running.wait() == 0
    assert paid
    for key, count in paid.items():
        assert bell.counts[key] == count, "a recorded call was made again"
    assert len(recorded()) == len(set(recorded())) == len(bell.counts)
    assert bell.counts.total() - len(bell.counts) <= KILLS * 2


def test_the_variable_names_the_journal_and_no_file_has_the_password(
    postgres: Postgres, model: MockOpenAI, sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    url = postgres.fresh()
    monkeypatch.setenv("REGROUND_JOURNAL", url)
    caplog.set_level(logging.DEBUG)
    compared = [
        "--methods",
        "direct,cot",
        "--budgets",
        "none",
        "--judge",
        "openai/mock",
        "--out",
        "cmp",
        "--limit",
        "2",
    ]
    command = evaluation(model, sums)
    assert run(["compare", *command[1:3], *command[5:], *compared]) == 0
    ends = [name.partition("/")[0].rpartition("-")[0] for name in names(postgres, url)]
    assert ends == ["cmp", "cot@none", "direct@none"]
    assert json.loads(Path("cmp/judge.json").read_text())["run"].endswith("/judge")
    asked = len(model.received)
    assert run(["compare", *command[1:3], *command[5:], *compared, "--rescore"]) == 0
    assert len(model.received) == asked, "the judge's calls are recorded too"
    said = "".join(capfd.readouterr()) + caplog.text
    for text in [said, *(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())]:
        assert PASSWORD not in text
        assert QUOTED not in text


@pytest.mark.parametrize("debug", [False, True])
def test_a_wrong_password_is_told_and_not_shown(
    postgres: Postgres, model: MockOpenAI, sums: Path, tmp_path: Path, debug: bool
) -> None:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **({"REGROUND_DEBUG": "1"} if debug else {})}
    address = postgres.address("postgres", "not%2Fthe%2Fword")
    done = subprocess.run(
        [sys.executable, "-m", "reground", *evaluation(model, sums, "--journal", address, "--out", "run")],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"error: cannot open the journal postgresql://127.0.0.1:{postgres.port}/postgres: ")
    assert "password authentication failed" in line
    assert model.received == []
    for text in [done.stdout, done.stderr, *(p.read_text() for p in Path("run").rglob("*") if p.is_file())]:
        assert "the/word" not in text
        assert "the%2Fword" not in text


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:pa@hush@host/db", "postgresql://me:pa/hush@host/db", "postgresql://me:hush",
        "postgresql://me:hush@host:port/db", "postgresql://me@host/db?passwort=hush", "postgresql://me:hush%zz@host/db",
        "mysql://me:hush@host/db", "host=h password=hush",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_read_is_refused_without_its_words(
    address: str, sums: Path, model: MockOpenAI, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'reground[postgres]'")
    assert run(evaluation(model, sums, "--journal", address, "--dry-run")) == 2
    said = "".join(capfd.readouterr())
    assert "postgresql://USER@HOST" in said
    assert "hush" not in said


def test_ask_is_replayed_on_another_machine_if_the_run_has_a_name(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.fresh()

    def paid(home: str, **options: Any) -> int:
        model = ScriptedModel(["Because."])
        result = reground.ask("Why?", method="direct", model=model, home=tmp_path / home, journal=url, **options)
        assert result.text == "Because."
        return len(model.calls)

    assert [paid("here"), paid("here"), paid("there")] == [1, 0, 1]
    assert [paid("one", journal_run="mine"), paid("two", journal_run="mine")] == [1, 0]
    assert [paid("two", journal_run="mine", fresh=True), paid("one", journal_run="mine")] == [1, 0]


def test_a_run_in_a_file_has_no_name_of_ones_own(model: MockOpenAI, sums: Path, capfd: Any) -> None:
    assert run(evaluation(model, sums, "--journal", "sqlite", "--journal-run", "x")) == 2
    assert "--journal-run names a run in PostgreSQL" in capfd.readouterr().err


def test_a_file_is_chosen_over_the_variable(model: MockOpenAI, sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGROUND_JOURNAL", "postgresql://127.0.0.1:1/nowhere")
    assert run(evaluation(model, sums, "--journal", "sqlite", "--out", "run")) == 0
    assert Path("run/journal.sqlite").exists()


WITHOUT = """
import sys

sys.modules["psycopg"] = None
from reground.app.cli import main

main()
"""


@pytest.mark.parametrize("command", [["eval", "--task", "x"], ["ask", "Why?"]])
def test_without_the_driver_one_line_names_the_extra(command: list[str]) -> None:
    options = ["--journal", "postgresql://me:hush@127.0.0.1/x", "--model", "openai/mock"]
    method = ["--method", "direct"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *command, *options, *method],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line == "error: a journal in PostgreSQL needs the extra [postgres]: pip install 'reground[postgres]'"
