"""The command as a process: what it imports, its streams, its warnings, and Ctrl-C at its beginning and its end."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from reground.app.cli import run
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

HEAVY = ("torch", "numpy", "aiohttp", "tantivy", "transformers", "xllamacpp", "lancedb", "trafilatura", "pypdf", "rich",
         "matplotlib", "sqlite3.dbapi3", "typer")  # fmt: skip


def test_importing_reground_brings_nothing_heavy():
    code = "import reground, sys; reground.__version__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()).isdisjoint(HEAVY)


COMMANDS = {
    "help": (["--help"], 0),
    "ask for JSON": (["ask", "Why?", "-m", "cot", "--model", "openai/mock", "--json"], 0),
    "error": (["ask", "Why?", "-m", "no_such_method"], 2),
}


def reground(words, folder, url, before=None, **streams):
    """Exit code and errors of a command; a stream that is given is closed by then."""
    done = subprocess.run(
        [sys.executable, "-m", "reground", *words],
        cwd=folder,
        env={**os.environ, "REGROUND_HOME": str(folder / "home"), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": ""},
        preexec_fn=before,
        timeout=60,
        check=False,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams},
    )
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture(scope="module")
def model():
    """The address of a server."""
    with serving(MockOpenAI(lambda body: "Answer: 42")) as server:
        yield server.url


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("closed", [("stdout",), ("stdout", "stderr"), (1,), (0, 1, 2)])
def test_a_stream_that_is_closed_or_whose_reader_has_left_changes_no_exit_code(name, closed, tmp_path, model):
    """closed: streams that nobody reads, by name; or descriptors that are not there, by number."""
    words, code = COMMANDS[name]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        if closed[0] == "stdout":
            ended, errors = reground(words, tmp_path, model, **dict.fromkeys(closed, writing))
        else:
            ended, errors = reground(words, tmp_path, model, before=lambda: [os.close(number) for number in closed])
    finally:
        os.close(writing)
    assert (ended, "Traceback" in errors, "Exception ignored" in errors) == (code, False, False), errors


ACTS = "\x1b]0;TITLE\x07\x1b[2J\x1b[31mfake\x9b1A\u202e"


class Hostile(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        reply = json.dumps({"error": ACTS}).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *said: object) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[str]:
    """A search engine whose errors act on a terminal."""
    with HTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"searxng:http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_cannot_act_on_the_terminal(engine: str) -> None:
    command = [sys.executable, "-m", "reground", "retrieve", "q", "--web", f"{engine},{engine}/b"]
    said = subprocess.run(command, capture_output=True, check=False).stderr.decode()
    assert f"search engine {engine} gave no results" in said and "fake" in said
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)


def test_warnings_of_every_logger_are_cleaned_and_the_logger_is_left_as_it_was(
    capsys, monkeypatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("method")
    (folder / "warns.py").write_text(
        f'"""Warns."""\nimport logging\nlogging.getLogger("reground.core.journal").warning({ACTS!r})\n'
    )
    monkeypatch.chdir(folder)
    log = logging.getLogger("reground")
    before = log.propagate, list(log.handlers)
    run(["methods", "./warns.py"])
    assert (log.propagate, log.handlers) == before
    said = capsys.readouterr().err
    assert "]0;TITLE[2J[31mfake1A" in said and "\x1b" not in said


INTERRUPTED = "interrupted; everything so far is kept: the same command continues from here\n"


def indexing(code, moment, folder):
    """An indexing that runs `code` first, which rings like a user who presses Ctrl-C at a moment."""
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text("# A\n\nText.\n")
    command = [sys.executable, "-c", code, moment]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False)


# Rings when this module is looked for.
LOADING = """
import signal, sys
class Ring:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Ring())
from reground.app.cli import main
main(["index", "docs", "--out", "idx"])
"""


@pytest.mark.parametrize(
    "module", ["typer", "pydantic", "pydantic_core", "rich", "rich.console", "reground.app.cli.index", "tantivy"]
)
def test_ctrl_c_while_a_module_is_loaded(module, tmp_path):
    done = indexing(LOADING, module, tmp_path)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)


# Rings at a moment of the end.
ENDING = """
import atexit, signal, sys
from reground.app import cli
signal.signal(signal.SIGINT, signal.default_int_handler)

def ring(*_):
    sys.setprofile(None)
    signal.raise_signal(signal.SIGINT)

def watch(frame, event, what):
    ends = event == "return" and frame.f_code is cli.run.__code__
    leaves = event == "c_call" and what is sys.exit
    if (moment == "done" and ends) or (moment == "leaving" and leaves):
        ring()

moment = sys.argv[1]
atexit.register(ring) if moment == "ending" else sys.setprofile(watch)
cli.main(["index", "docs", "--out", "idx"])
"""


@pytest.mark.parametrize(("moment", "code"), [("done", 130), ("leaving", 0), ("ending", 0)])
def test_ctrl_c_at_the_end(moment, code, tmp_path):
    done = indexing(ENDING, moment, tmp_path)
    assert (done.returncode, done.stderr) == (code, INTERRUPTED if code else "")
    assert "1 passages from 1 documents" in done.stdout
