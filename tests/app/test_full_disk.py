"""A disk that is full or read-only: one clear line, the right exit code, and nothing that was recorded is lost."""

import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from reground.core.trajectory import read_trajectories
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

ROOT = Path(__file__).resolve().parents[2]
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


def reground(*arguments, home, limit=None, stdout=subprocess.PIPE):
    """A command in a process of its own, whose files may grow to `limit` bytes."""

    def limited():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-m", "reground", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "REGROUND_HOME": str(home), "OPENAI_API_KEY": ""},
        preexec_fn=limited,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


def ask(server, *more):
    return ("ask", "why?", "--method", "self_refine", "--model", "openai/mock", "--base-url", server.url, *more)


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
        one_clear_line(*reground(*ask(server), home=home, limit=None if is_disk else kib * KIB))
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


def test_a_trace_without_room_keeps_its_whole_lines(tmp_path):
    trace = tmp_path / "trace.jsonl"
    with serving(MockOpenAI(lambda body: "Answer: 42")) as server:
        home = tmp_path / "home"
        assert (reground(*ask(server, "--trace", str(trace)), home=home))[0] == 0
        with trace.open("ab") as file:
            file.write(b"\n" * 200_000)
        whole = trace.read_bytes()
        one_clear_line(*reground(*ask(server, "--trace", str(trace), "--fresh"), home=home, limit=len(whole) + 1000))
        assert trace.read_bytes() == whole
        assert len(list(read_trajectories(trace))) == 1


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
