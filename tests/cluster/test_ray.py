"""`reground eval --ray` from the outside, on a cluster of three nodes on this machine."""

import asyncio
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest

from reground.testing.openai_server import MockOpenAI
from tests.cluster.near import books, moody, written
from tests.cluster.nodes import environment
from tests.data import ROOT
from tests.killing import effects
from tests.signals import heed_ctrl_c

QUESTIONS, CALLS, AT_ONCE = 12, 36, 4
_START_SECONDS = 280

has_ray = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not has_ray, reason="Ray is not installed: pip install 'reground[ray]'")
pytestmark = pytest.mark.timeout(900)


class Nodes:
    """The cluster's process."""

    def __init__(self, process, address):
        self._process, self.address = process, address

    def kill(self, node):
        """Kill a node, and all that runs on it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{node}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Two nodes of one CPU each, and a head without any."""
    errors = tmp_path_factory.mktemp("ray") / "stderr"
    command = [sys.executable, "-m", "tests.cluster.nodes", "2"]
    env = environment() | {"OPENAI_API_KEY": "none", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with (
        errors.open("w") as told,
        subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            address = _line(process.stdout, _START_SECONDS)
            if not address:
                why = (errors.read_text().splitlines() or ["no reason was given"])[-1]
                pytest.skip(f"Ray starts no cluster on this machine: {why}")
            yield Nodes(process, address)
        finally:
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def _line(stream, seconds):
    """The next line; empty if none comes in time."""
    ready, _, _ = select.select([stream], [], [], seconds)
    return stream.readline().strip() if ready else ""


def command(folder, url, address):
    method, asked = written(folder, QUESTIONS)
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)
    return [
        sys.executable, "-m", "reground", "eval", "--questions", str(asked), "--method", str(method),
        "--model", "openai/mock", "--base-url", url, "-j", str(AT_ONCE), "--set", f"pids={pids}",
        "--out", str(folder / "run"), "--ray", address, "--ray-workers", "2",
    ]  # fmt: skip


async def started(line, folder):
    env = environment() | {"OPENAI_API_KEY": "none", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return await asyncio.create_subprocess_exec(
        *line, cwd=folder, env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    )  # fmt: skip


async def until(process, so):
    """Return when it is so. Fails where the process ends before."""
    while not so():
        if process.returncode is not None:
            assert process.stderr is not None
            pytest.fail((await process.stderr.read()).decode())
        await asyncio.sleep(0.05)


async def ended(process):
    _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()


def whole(folder):
    """Every question has its record, and every effect is in the journal once."""
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert (summary["finished"], summary["failed"], summary["usage"]["calls"]) == (True, 0, CALLS)
    places = [place for place, _ in effects(folder / "run" / "journal.sqlite")]
    assert len(places) == len(set(places)) == CALLS


@needs_ray
async def test_an_interrupted_run_goes_on_with_the_same_command(nodes, tmp_path):
    async with MockOpenAI(lambda body: "Answer: 1", latency=0.3) as server:
        line = command(tmp_path, server.url, nodes.address)
        process = await started(line, tmp_path)
        await until(process, lambda: server.completed.total() >= 8)
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        code, err = await ended(process)
        print(f"{time.monotonic() - pressed:.2f} s from Ctrl-C to the exit")
        assert (code, "the same command continues from here" in err) == (130, True), err
        kept = len(effects(tmp_path / "run" / "journal.sqlite"))
        assert server.completed.total() - kept <= AT_ONCE
        code, err = await ended(await started(line, tmp_path))
        assert code == 0, err
        assert f"{QUESTIONS}/{QUESTIONS} done" in err
    whole(tmp_path)
    assert server.completed.total() <= CALLS + AT_ONCE


@needs_ray
@pytest.mark.parametrize("stage", [["agent", "grow", "--set", "samples=1"], ["rewriter", "collect"]])
async def test_what_a_training_learns_from_is_collected_by_workers(nodes, tmp_path, stage):
    data, notes = tmp_path / "data" / "nq_open", tmp_path / "notes"
    data.mkdir(parents=True)
    notes.mkdir()
    (notes / "one.txt").write_text("A writer has written a book.")
    lines = [{"id": f"q{i}", "question": f"who wrote book {i}?", "golden_answers": ["a writer"]} for i in range(4)]
    (data / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with MockOpenAI(lambda body: "a writer") as server:
        line = [
            sys.executable, "-m", "reground", "train", *stage, "--task", "nq_open_train", "--data", str(data.parent),
            "--corpus", str(notes), "--model", "openai/mock", "--base-url", server.url, "--out", str(tmp_path / "out"),
        ]  # fmt: skip
        code, err = await ended(await started([*line, "--ray", nodes.address, "--ray-workers", "2"], tmp_path))
        assert code == 0, err
        paid = server.completed.total()
        assert paid >= len(lines)
        code, err = await ended(await started(line, tmp_path))
        assert code == 0, err
        assert server.completed.total() == paid, "what the workers did is found again without them"


def scorers(folder):
    """The processes that have scored an answer about books."""
    return {int(file.stem) for file in folder.glob("*.pid")}


@needs_ray
async def test_trees_are_grown_by_workers(nodes, tmp_path):
    async with MockOpenAI(moody, latency=0.3) as server:
        line = [
            sys.executable, "-m", "reground", "train", "critics", "collect", "--task", books(tmp_path), "-j", "4",
            "--set", "retrieval=false", "--set", "candidates=2", "--simulations", "8",
            "--model", "openai/mock", "--base-url", server.url,
        ]  # fmt: skip
        code, err = await ended(await started([*line, "--out", "here"], tmp_path))
        assert code == 0, err
        calls = server.completed.total()
        there = [*line, "--out", "there", "--ray", nodes.address, "--ray-workers", "2"]
        process = await started(there, tmp_path)
        await until(process, lambda: server.completed.total() >= calls + 8)
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        code, err = await ended(process)
        print(f"{time.monotonic() - pressed:.2f} s from Ctrl-C to the exit")
        assert (code, "the same command continues from here" in err) == (130, True), err
        before = scorers(tmp_path)
        process = await started(there, tmp_path)
        await until(process, lambda: scorers(tmp_path) > before)
        os.kill(min(scorers(tmp_path) - before), signal.SIGKILL)
        code, err = await ended(process)
        assert code == 0, err
        assert "its questions go to others" in err
        assert server.completed.total() <= 2 * calls + 2 * 4 * 2, "what was in flight was made again, and nothing else"
    one, other = (
        {file.name: file.read_bytes() for file in (tmp_path / out / "trees").iterdir()} for out in ("here", "there")
    )
    assert (len(one), one == other) == (4, True)
    kept, found = (sorted(effects(tmp_path / out / "journal.sqlite")) for out in ("here", "there"))
    assert kept == found


@needs_ray
async def test_a_worker_and_a_node_may_be_killed(nodes, tmp_path):
    async with MockOpenAI(lambda body: "Answer: 1", latency=0.3) as server:
        process = await started(command(tmp_path, server.url, nodes.address), tmp_path)
        await until(process, lambda: server.completed.total() >= 6)
        workers = {int(file.name) for file in (tmp_path / "pids").iterdir()} - {process.pid}  # the command is no worker
        os.kill(min(workers), signal.SIGKILL)
        await until(process, lambda: server.completed.total() >= 14)
        await asyncio.to_thread(nodes.kill, 0)
        code, err = await ended(process)
        assert code == 0, err
    assert "its questions go to others" in err
    whole(tmp_path)
    # half of the questions in flight were lost with the worker, and half with the node
    assert server.completed.total() <= CALLS + AT_ONCE


@needs_ray
async def test_ray_is_started_for_the_time_of_a_command(tmp_path):
    """Its processes were killed when the thread that had begun them ended."""
    async with MockOpenAI(lambda body: "Answer: 1") as server:
        code, err = await asyncio.wait_for(ended(await started(command(tmp_path, server.url, "local"), tmp_path)), 300)
        assert code == 0, err
    whole(tmp_path)


@needs_ray
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:9", "no Ray cluster answers at 127.0.0.1:9"),
        ("somewhere", "--ray takes local, auto or an address HOST:PORT, not 'somewhere'"),
    ],
)
async def test_an_address_that_does_not_answer_is_one_line(address, said, tmp_path):
    code, err = await ended(await started(command(tmp_path, "http://127.0.0.1:9/v1", address), tmp_path))
    assert (code, err.count("\n"), said in err) == (2, 1, True), err


@pytest.mark.skipif(has_ray, reason="Ray is installed here")
async def test_without_ray_the_extra_is_named(tmp_path):
    code, err = await ended(await started(command(tmp_path, "http://127.0.0.1:9/v1", "local"), tmp_path))
    assert (code, err) == (2, "error: --ray needs the extra [ray]: pip install 'reground[ray]'\n")
