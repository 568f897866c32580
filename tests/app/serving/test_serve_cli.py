"""The command, as a process: keys, signals, and a question that outlives the server."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import pytest

from reground.app.cli import run
from reground.core.files import models_dir
from reground.testing.openai_server import MockOpenAI
from tests.models.test_downloads import KEPT, NAME, hub
from tests.servers import serving
from tests.training.tiny import tiny_gguf

__all__ = ["hub"]

QUESTION = {"messages": [{"role": "user", "content": "Which river flows through Prague?"}], "model": "rat/mock@docs"}


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "prague.md").write_text("The Vltava flows through Prague.")
    return folder


class Process:
    """A running `reground serve`."""

    def __init__(self, process, url, said):
        self.process, self.url, self.said = process, url, said

    def post(self, body, path="/v1/chat/completions", key=None):
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.load(reply)

    def ended(self, sign, seconds):
        """Send a signal. Returns the exit code, the seconds to the end, and what stood on standard error."""
        began = time.monotonic()
        self.process.send_signal(sign)
        _, said = self.process.communicate(timeout=seconds)
        return self.process.returncode, time.monotonic() - began, said


@contextlib.contextmanager
def process(home, docs, model, *arguments):
    command: Sequence[str] = [
        *(sys.executable, "-m", "reground", "serve", "-c", str(docs), "--port", "0", "-m", "rat", "-m", "direct"),
        *("--model", "openai/mock", "--base-url", model.url, *arguments),
    ]
    env = {**os.environ, "REGROUND_HOME": str(home), "OPENAI_API_KEY": "sk-secret-of-the-model"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as running:
        assert running.stderr is not None
        try:
            said = ""
            while (found := re.search(r"http://[\d.]+:\d+", said)) is None:
                line = running.stderr.readline()
                assert line, said
                said += line
            yield Process(running, found.group(), said)
        finally:
            running.kill()


def test_its_models_are_downloaded_before_it_serves(hub, tmp_path, docs):
    hub.body = tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    hub.sha256 = hashlib.sha256(hub.body).hexdigest()
    with serving(MockOpenAI()) as model, process(tmp_path, docs, model, "--model", f"gguf/{NAME}") as server:
        assert "downloading tiny.gguf" in server.said
        assert (models_dir() / KEPT).read_bytes() == hub.body


@contextlib.contextmanager
def asking(server):
    """Ask in a thread until the end of the block; the list gets the answer or the error."""
    got: list[Any] = []

    def ask():
        try:
            got.append(server.post(QUESTION))
        except OSError as error:
            got.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    yield got
    thread.join(10)


def test_a_killed_server_pays_for_no_call_twice(tmp_path, docs):
    with serving(MockOpenAI(latency=0.2)) as model:
        with process(tmp_path / "home", docs, model) as server, asking(server):
            while model.completed.total() < 2:
                time.sleep(0.02)
            server.process.kill()
        time.sleep(0.4)  # the call in flight ends
        with process(tmp_path / "home", docs, model) as server:
            found = server.post(QUESTION)
            total = model.completed.total()
            assert total <= found["reground"]["calls"] + 1, "only the call in flight is made again"
            assert found["usage"]["total_tokens"] > 0
            again = server.post(QUESTION)
            assert again["usage"] == found["usage"]
            assert model.completed.total() == total


@pytest.mark.parametrize(
    ("sign", "latency", "options", "code", "most"),
    [
        pytest.param(signal.SIGINT, 30, "", 130, 3, id="Ctrl-C ends it within a second"),  # and a busy machine
        pytest.param(signal.SIGTERM, 0.3, "", 0, 30, id="SIGTERM lets what is in work end"),
        pytest.param(signal.SIGTERM, 30, "grace = 0.3\n", 0, 5, id="and cancels what takes longer than the grace"),
    ],
)
def test_a_signal_ends_the_server(tmp_path, docs, sign, latency, options, code, most):
    config = tmp_path / "options.toml"
    config.write_text(options)
    with (
        serving(MockOpenAI(latency=latency)) as model,
        process(tmp_path / "home", docs, model, "--config", str(config)) as server,
        asking(server) as got,
    ):
        while not model.received:
            time.sleep(0.02)
        ended, seconds, said = server.ended(sign, 30)
    assert (ended, seconds < most) == (code, True)
    assert "Traceback" not in said and ("interrupted" in said) == (sign == signal.SIGINT)
    assert isinstance(got[0], OSError) if latency == 30 else got[0]["choices"][0]["message"]["content"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_key_is_made_shown_once_and_asked_for(home, docs, capsys):
    assert run(["serve", "--new-key", "me"]) == 0
    key = capsys.readouterr().out.strip()
    place = home / "keys.jsonl"
    assert key.startswith("sk-rg-") and key not in place.read_text()
    assert place.stat().st_mode & 0o077 == 0
    assert run(["serve", "--new-key", "me"]) == 2
    assert "a key is called me already" in capsys.readouterr().err
    with serving(MockOpenAI()) as model, process(home, docs, model) as server:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            server.post(QUESTION)
        assert server.post(QUESTION, key=key)["choices"]
        _, _, said = server.ended(signal.SIGTERM, 10)
    assert key not in said and "sk-secret" not in said


def test_others_reach_no_server_without_keys(home, tmp_path, docs, capsys):
    def refused(*options):
        assert run(["serve", *options]) == 2
        return capsys.readouterr().err

    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org"):
        assert "others may reach" in refused("-c", str(docs), "--host", host)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "bad.jsonl").write_text('{"name": "a"}\n')
    for name, why in (("empty", "has no key, so nobody could ask"), ("none", "cannot read keys"), ("bad", "jsonl:1")):
        assert why in refused("--host", "0.0.0.0", "--keys", str(tmp_path / f"{name}.jsonl"))
    assert "give one of them" in refused("--no-keys", "--keys", "a")


@pytest.mark.parametrize("named", [True, False])
def test_a_file_whose_keys_were_all_taken_out_lets_nobody_in_after_a_restart_either(home, docs, capsys, named):
    assert run(["serve", "--new-key", "me"]) == 0
    (home / "keys.jsonl").write_text("")
    keys = ["--keys", str(home / "keys.jsonl")] if named else []
    assert run(["serve", "-c", str(docs), "--model", "gguf/no-such-model", *keys]) == 2
    assert "keys.jsonl has no key, so nobody could ask" in capsys.readouterr().err
