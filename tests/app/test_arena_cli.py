"""`reground arena` from the outside."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import pytest

from reground.app.cli import run
from reground.arena.pairs import contest
from reground.arena.votes import Vote, Votes
from reground.evaluation.results import find_runs
from reground.testing.openai_server import MockOpenAI
from tests.arena.runs import three_runs, write_run
from tests.arena.serving import Client
from tests.minecraft.small import write_recipes
from tests.servers import serving
from tests.signals import heed_ctrl_c


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.chdir(tmp_path)
    three_runs(tmp_path / "runs")
    return tmp_path / "runs"


def voted(runs: Path, file: Path) -> None:
    pairs = contest(find_runs([runs])).pairs.values()
    with closing(Votes(file)) as votes:
        for pair in pairs:
            votes.add(Vote(pair.id, pair.question, "anna", "person", 1, "first"))


def test_results_are_printed_written_and_given_as_json(runs: Path, tmp_path: Path, capfd) -> None:
    voted(runs, runs / "arena.sqlite")
    assert run(["arena", str(runs), "--results", "--csv", "out.csv"]) == 0
    said = capfd.readouterr().out
    assert "people: 9 votes of 1 judge on 3 of 3 questions." in said
    assert re.search(r"people\s+quokka@1k\s+\d+\.\d\d", said)
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0].startswith("judges,method,mu,sigma") and len(lines) == 4
    assert run(["arena", str(runs), "--json", "--judges", "models"]) == 0
    data = json.loads(capfd.readouterr().out)
    assert (data["pairs"], data["groups"]) == (9, [])
    assert run(["arena", str(runs), "--json"]) == 0
    assert [each["votes"] for each in json.loads(capfd.readouterr().out)["groups"]] == [9]


def test_the_file_of_votes_stands_beside_the_first_run(runs: Path, capfd) -> None:
    folders = sorted(str(each) for each in runs.iterdir())
    assert run(["arena", *folders, "--results"]) == 2
    assert f"{runs / 'arena.sqlite'}: there are no votes yet" in " ".join(capfd.readouterr().err.split())
    assert not (runs / "arena.sqlite").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_the_state_folder_takes_the_votes_where_the_runs_cannot(runs: Path, tmp_path: Path, capfd) -> None:
    runs.chmod(0o555)
    try:
        assert run(["arena", str(runs), "--results"]) == 2
    finally:
        runs.chmod(0o755)
    assert str(tmp_path / "home" / "runs" / "arena.sqlite") in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["runs/folder-quokka"], "answers of at least two methods"),
        (["nowhere"], "no run folder here"),
        (["runs", "--votes", "runs/folder-quokka/config.json"], "not a file of votes"),
        (["runs", "--port", "70000", "--no-open"], "no port 70000"),
        (["runs", "--judge", "nowhere/x"], "nowhere"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(arguments: list[str], why: str, runs: Path, capfd) -> None:
    assert run(["arena", *arguments]) == 2
    assert why in " ".join(capfd.readouterr().err.split())


def test_a_model_votes_in_both_orders_and_resumes(runs: Path, capfd) -> None:
    def say(body):
        asked = body["messages"][-1]["content"]
        if "What is q2?" in asked:
            return "I like both."
        return '# the longer one\nverdict = "A"' if "A = 'long" in asked else '# no\nverdict = "B"'

    with serving(MockOpenAI(say, models=("mock",))) as server:
        order = ["arena", str(runs), "--judge", "openai/mock", "--base-url", server.url]
        assert run([*order, "--dry-run"]) == 0
        assert "9 pairs of 3 methods on 3 questions; a model is asked 18 times" in capfd.readouterr().out
        assert server.received == []
        assert run(order) == 0
        captured = capfd.readouterr()
        assert "openai/mock judged 9 pairs; 2 verdicts changed with the order and are ties, 3 could not be read" in (
            " ".join(captured.err.split())
        )
        assert re.search(r"models\s+quokka@1k", captured.out)
        assert "models: 6 votes of 1 judge on 2 of 3 questions." in captured.out
        paid = len(server.received)
        assert run([*order, "-q"]) == 0
        assert len(server.received) == paid, "what was asked is not paid for again"
        voted(runs, runs / "arena.sqlite")
        capfd.readouterr()
        assert run(["arena", str(runs), "--json"]) == 0
    data = json.loads(capfd.readouterr().out)
    assert [each["judges"] for each in data["groups"]] == ["people", "models"]
    assert data["agreement"][0]["between"] == "openai/mock and people"


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data of a small Minecraft, and runs of two methods with a plan each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    for name, item in (("one", "Oak Log"), ("other", "Birch Log")):
        text = f"**STEP 1:** Chop.\n- Minecraft items: 1x {item}"
        write_run(tmp_path / "runs" / name, name, {"q": text}, task="minecraft")
    return write_recipes(tmp_path / "data", items=[{"name": "oak_log"}])


@pytest.mark.parametrize("found", [True, False])
def test_plans_are_judged_as_people_read_them(plans: Path, found: bool, capfd) -> None:
    """Where the task cannot be loaded, this is said: judges would see, and vote on, other texts."""
    asked: list[str] = []

    def say(body):
        asked.append(body["messages"][-1]["content"].rpartition("question = ")[2])
        return 'verdict = "tie"'

    with serving(MockOpenAI(say, models=("mock",))) as server:
        order = ["arena", "runs", "--judge", "openai/mock", "--base-url", server.url]
        assert run([*order, "--data", str(plans) if found else "hub"]) == 0, capfd.readouterr().err
    assert ("STEP 1: Chop. - Minecraft items: 1x Oak Log" in asked[0]) is found
    assert ("note: answers to minecraft are shown as they were written" in capfd.readouterr().err) is not found


@asynccontextmanager
async def served(runs: Path, votes: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Client]]:
    """The command in a process of its own, and a client of its page."""
    arguments = ["arena", str(runs), "--votes", str(votes), "--no-open", "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "reground", *arguments, stderr=asyncio.subprocess.PIPE, preexec_fn=heed_ctrl_c
    )
    assert process.stderr is not None
    try:
        said = ""
        while "http://" not in said:
            line = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
            assert line, "the arena ended before it opened"
            said += line
        async with aiohttp.ClientSession() as session:
            yield process, Client(re.findall(r"http://[^/]+", said)[-1], session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("killed_after", [1, 4, 8])
async def test_a_killed_arena_has_every_acknowledged_vote(killed_after: int, runs: Path, tmp_path: Path) -> None:
    file, acknowledged = tmp_path / "kept" / "votes.sqlite", 0

    async with served(runs, file) as (process, client):

        async def judging(judge: str) -> None:
            nonlocal acknowledged
            state = await client.state(judge)
            while state["pair"]:
                try:
                    state = await client.vote(state, "a")
                except aiohttp.ClientError:
                    return
                acknowledged += 1
                if acknowledged == killed_after:
                    process.send_signal(signal.SIGKILL)

        await asyncio.gather(*(judging(name) for name in ("anna", "ben", "cleo")))
        assert await process.wait() == -signal.SIGKILL
    with closing(Votes(file, fresh=False)) as votes:
        assert killed_after <= acknowledged <= len(votes.all())
        kept = len(votes.all())
    async with served(runs, file) as (_, client):
        states = [await client.state(name) for name in ("anna", "ben", "cleo")]
        assert sum(state["done"] for state in states) == kept


async def test_ctrl_c_ends_it(runs: Path, tmp_path: Path) -> None:
    async with served(runs, tmp_path / "votes.sqlite") as (process, client):
        assert (await client.get("/"))[0] == 200
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 10) == 130


def test_a_taken_port_is_said(runs: Path, capfd) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        assert run(["arena", str(runs), "--no-open", "--port", str(port)]) == 2
    assert f"cannot listen at 127.0.0.1:{port}" in capfd.readouterr().err
