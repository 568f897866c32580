"""`reground view` as a user meets it: its address, one file, errors of one line, Ctrl-C."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from reground.app.cli import run
from reground.core.trajectory import write_trajectories
from tests.signals import heed_ctrl_c
from tests.view.samples import failed, run_folder


@contextmanager
def viewing(*arguments, browser=""):
    """The command as a process, and the address that it says."""
    command = [sys.executable, "-m", "reground", "view", "--no-open", *arguments]
    surroundings = os.environ | {"BROWSER": browser}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c, env=surroundings)
    try:
        assert child.stderr is not None
        line = child.stderr.readline() + child.stderr.readline()
        found = re.search(r"http://\S+/", line)
        assert found is not None, line
        yield child, found.group()
    finally:
        child.kill()
        child.communicate()


def test_it_says_its_address_serves_and_ends_at_ctrl_c(tmp_path):
    write_trajectories(tmp_path / "t.jsonl", [failed("a")])
    with viewing(str(tmp_path / "t.jsonl")) as (child, url):
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}news") as response:
            assert [item["id"] for item in json.load(response)["items"]] == ["a"]
            began = time.monotonic()
            child.send_signal(signal.SIGINT)  # while a connection is open
            _, err = child.communicate(timeout=30)
            assert time.monotonic() - began < 10  # less than one, on an idle machine
        assert child.returncode == 130 and "Traceback" not in err
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=5)


def test_it_opens_the_browser_that_the_user_has(tmp_path):
    write_trajectories(tmp_path / "t.jsonl", [failed("a")])
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part; mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    with viewing(str(tmp_path / "t.jsonl"), "--open", browser=f"{browser} %s") as (_, url):
        deadline = time.monotonic() + 30
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert opened.read_text().strip() == url


def test_a_port_that_is_taken_is_told_of(tmp_path, capsys):
    write_trajectories(tmp_path / "t.jsonl", [failed("a")])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (str(taken.getsockname()[1]), "70000"):
            assert run(["view", str(tmp_path / "t.jsonl"), "--no-open", "--port", port]) == 2
            err = capsys.readouterr().err
            assert f"error: cannot listen at 127.0.0.1:{port}: " in err and len(err.strip().splitlines()) == 1


async def test_one_file_is_written_whole(tmp_path, capsys):
    await run_folder(tmp_path / "rat")
    out = tmp_path / "page.html"
    assert run(["view", str(tmp_path / "rat"), "--export", str(out)]) == 0
    assert "3 questions in" in capsys.readouterr().err
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-" in page
    assert page.count('<script type="application/json"') == 4
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nothing", "nothing: there is no such file or folder"),
        ("empty", "holds no run and no trajectories"),
        ("broken", "config.json"),
        ("words.txt", "words.txt:1: not a trajectory of version 2"),
        ("list.json", "list.json:1: not a trajectory"),
    ],
)
def test_a_wrong_path_is_one_clear_line(tmp_path, capsys, place, why):
    for name, text in (("words.txt", "hello\n"), ("list.json", "[1]"), ("broken/config.json", "{}")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    assert run(["view", str(tmp_path / place), "--no-open"]) == 2
    err = capsys.readouterr().err
    assert why in err and len(err.strip().splitlines()) == 1


def test_an_export_that_cannot_be_written_is_one_clear_line(tmp_path, capsys):
    write_trajectories(tmp_path / "t.jsonl", [failed("a")])
    assert run(["view", str(tmp_path / "t.jsonl"), "--export", "/dev/null/page.html"]) == 2
    err = capsys.readouterr().err
    assert "cannot write /dev/null/page.html" in err and len(err.strip().splitlines()) == 1
