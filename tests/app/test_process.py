"""The command as a process: its imports, streams and warnings, Ctrl-C at its beginning and its end, and a full disk."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.core.trajectory import read_trajectories
from reground.testing.openai_server import MockOpenAI
from tests.data import ROOT
from tests.servers import model_of, serving

HEAVY = ("torch", "numpy", "aiohttp", "tantivy", "transformers", "xllamacpp", "lancedb", "trafilatura", "pypdf", "rich",
         "matplotlib", "sqlite3.dbapi3", "typer")  # fmt: skip


def test_importing_reground_brings_nothing_heavy():
    code = "import reground, sys; reground.__version__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()).isdisjoint(HEAVY)


COMMANDS = {
    "help": (["--help"], 0),
    "ask for JSON": (["ask", "Why?", "-m", "cot", "--json"], 0),
    "error": (["ask", "Why?", "-m", "no_such_method"], 2),
}


def reground(*words, home, before=None, **streams):
    """Exit code and errors of a command in a process of its own, where `before` is called first."""
    done = subprocess.run(
        [sys.executable, "-m", "reground", *words],
        env={**os.environ, "REGROUND_HOME": str(home), "OPENAI_API_KEY": ""},
        preexec_fn=before,
        timeout=120,
        check=False,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams},
    )
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("closed", [("stdout",), ("stdout", "stderr"), (1,), (0, 1, 2)])
def test_a_stream_that_is_closed_or_whose_reader_has_left_changes_no_exit_code(name, closed, tmp_path):
    """closed: streams that nobody reads, by name; or descriptors that are not there, by number."""
    words, code = COMMANDS[name]
    reading, writing = os.pipe()
    os.close(reading)
    how = {"before": lambda: [os.close(number) for number in closed]}
    if closed[0] == "stdout":
        how = dict.fromkeys(closed, writing)
    with serving(MockOpenAI(lambda body: "Answer: 42")) as server:
        ended, errors = reground(*words, *(model_of(server) if name != "help" else ()), home=tmp_path, **how)
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
    assert "1 passage from 1 document" in done.stdout


# A disk that is full or read-only: one clear line, the right exit code, and nothing that was recorded is lost.

LONG = "word " * 1500
KIB = 1024


@pytest.fixture
def disk(tmp_path):
    """Makes a folder on a disk of the given KiB."""
    mounted = []

    def make(kib):
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
        with contextlib.suppress(OSError):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                mounted.append(folder)
                return folder
        return pytest.skip("no small disk can be mounted here")

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def ask(server, *more):
    return ("ask", "why?", "--method", "self_refine", *model_of(server), *more)


def limited(size):
    """What keeps the files of a process from growing beyond a size in bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def one_clear_line(code, errors):
    lines = [line for line in errors.splitlines() if line.startswith(("error", "internal", "Traceback"))]
    assert code == 2, errors
    assert len(lines) == 1, errors
    assert lines[0].startswith("error: "), errors


def script(body):
    return f"{LONG} Answer: 42"


@pytest.mark.slow
@pytest.mark.parametrize(("kib", "is_disk"), [(0, False), (24, False), (8, True), (64, True)])
def test_ask_where_no_file_may_grow_further(tmp_path, disk, kib, is_disk):
    home = disk(kib) if is_disk else tmp_path / "home"
    with serving(MockOpenAI(script)) as server:
        one_clear_line(*reground(*ask(server), home=home, before=None if is_disk else limited(kib * KIB)))
        if is_disk:
            subprocess.run(["mount", "-o", "remount,size=16m", str(home)], check=True)
        goes_on(server, home)


@pytest.mark.parametrize("kib", [8, 40])
def test_an_index_without_room(tmp_path, disk, kib):
    (tmp_path / "docs").mkdir()
    for number in range(40):
        (tmp_path / "docs" / f"{number}.md").write_text(f"# Book {number}\n\n" + f"Writer {number} wrote it. " * 40)
    index = disk(kib)
    command = ("index", str(tmp_path / "docs"), "--out", str(index))
    one_clear_line(*reground(*command, home=tmp_path / "home"))
    subprocess.run(["mount", "-o", "remount,size=16m", str(index)], check=True)
    assert reground(*command, home=tmp_path / "home")[0] == 0


def goes_on(server, home):
    """With room, the same command finishes, and at most the call whose record found no room is asked again."""
    code, errors = reground(*ask(server), home=home)
    assert code == 0, errors
    paid = server.completed.total()
    assert reground(*ask(server), home=home)[0] == 0
    assert server.completed.total() == paid
    assert reground(*ask(server, "--fresh"), home=home)[0] == 0
    assert paid - (server.completed.total() - paid) <= 1
    assert not list(home.rglob("*.part"))


def test_a_read_only_disk(disk):
    home = disk(64)
    subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
    with serving(MockOpenAI(script)) as server:
        one_clear_line(*reground(*ask(server), home=home))
        one_clear_line(*reground(*ask(server, "--trace", str(home / "t.jsonl")), home=home.parent / "h"))
        assert server.completed.total() == 0


def test_output_that_cannot_be_written(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with serving(MockOpenAI(lambda body: "Answer: 42")) as server, Path("/dev/full").open("w") as full:
        one_clear_line(*reground(*ask(server), home=tmp_path, stdout=full))


EVAL = """
import resource, sys
from reground.core.errors import RegroundError
from tests.evaluation import killed_run
size = int(sys.argv[3])
if size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    killed_run.main(sys.argv[1], sys.argv[2])
except RegroundError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("kib", [1, 24, 60])
def test_an_evaluation_goes_on_when_there_is_room_again(tmp_path, kib):
    def run(size):
        command = [sys.executable, "-c", EVAL, str(tmp_path / "run"), str(tmp_path / "bill"), str(size)]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)

    full = run(kib * KIB)
    one_clear_line(full.returncode, full.stderr)
    paid = len((tmp_path / "bill").read_text().splitlines()) if (tmp_path / "bill").exists() else 0
    free = run(0)
    assert free.returncode == 0, free.stderr
    bill = (tmp_path / "bill").read_text().splitlines()
    assert len(bill) - len(set(bill)) * 2 <= 6 * 2, f"{paid} were paid, and then {len(bill)} in all"
    done = [each.id for each in read_trajectories(tmp_path / "run" / "trajectories.jsonl")]
    assert len(done) == len(set(done)) == 16
