"""Limits hold for all that a program can take, and the host's own limits are never a program's fault."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reground.core.programs import Execution, Limits, Program, Sandbox, Verdict
from reground.sandbox.limits import (
    PREFIX,
    MemoryGroup,
    Watch,
    find_group_parent,
    make_workspace,
    remove,
    resident_mib,
    sweep,
)
from tests.sandbox.hostile_tricks import TRICKS

# Long, because a program that is over a limit holds on to it: on a busy machine the watch may see it late.
LIMITS = Limits(seconds=60, memory_mib=256)
# What a watch that looks now and then lets through, and what the interpreter takes.
SLACK_MIB = 400


async def taking(sandbox: Sandbox, body: str) -> Execution:
    """What becomes of a program whose `take` gives True once it has all that it wanted."""
    source = f"import ctypes, mmap, os, socket, time\nlibc = ctypes.CDLL(None, use_errno=True)\n{body}\n"
    return await sandbox.execute(Program(source=source, tests="assert take()", exports=("take",), limits=LIMITS))


TAKERS: dict[str, str] = TRICKS["takers"]


@pytest.mark.parametrize("what", TAKERS)
async def test_what_a_limit_counts_is_limited(what: str, sandbox: Sandbox) -> None:
    found = await taking(sandbox, TAKERS[what])
    assert not found.passed, found
    assert (found.memory_mib or 0) < LIMITS.memory_mib + SLACK_MIB, found


def unseeing(self: Watch) -> None:
    """A watch that comes too late."""


@pytest.mark.parametrize("limited_by", ["group", "watch"])
async def test_a_whole_tree_may_not_use_more_memory(
    limited_by: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limited_by == "watch":
        monkeypatch.setattr("reground.sandbox.engine.make_memory_group", lambda mib: None)
    elif find_group_parent() is None:
        pytest.skip("this process may not make a control group")
    else:
        monkeypatch.setattr(Watch, "sample", unseeing)
    found = await taking(sandbox, TAKERS["shared memory of children"])
    assert (found.verdict, found.detail) == (Verdict.MEMORY, "used more than 256 MiB")


@pytest.mark.parametrize("name", ["memory.events", "memory.oom_control"])
def test_both_versions_of_a_group_tell_that_its_memory_was_used_up(name: str, tmp_path: Path) -> None:
    group = MemoryGroup(tmp_path)
    assert not group.exceeded()
    (tmp_path / name).write_text("oom_kill_disable 1\noom_kill 0\n")
    assert not group.exceeded()
    (tmp_path / name).write_text("oom_kill_disable 0\noom_kill 2\n")
    assert group.exceeded()


NO_TEXT = {
    "a socket's name": r"kept = socket.socket(socket.AF_UNIX); kept.bind(b'\0\xff')",
    "a process's name": r"libc.prctl(15, b'\xff')",
}


@pytest.mark.parametrize("what", NO_TEXT)
async def test_a_name_that_is_no_text_does_not_end_the_watch(
    what: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reground.sandbox.engine.make_memory_group", lambda mib: None)
    found = await taking(sandbox, f"{NO_TEXT[what]}\n{TAKERS['shared memory of children']}")
    assert (found.verdict, found.detail) == (Verdict.MEMORY, "used more than 256 MiB")


@pytest.mark.parametrize("name", [b"python", b"\xff", b"\rRssAnon: -9999", b"\x1cRssAnon:", b"\x85RssAnon:"])
def test_a_process_cannot_change_its_memory_by_its_name(name: bytes) -> None:
    source = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, {name!r}); kept = bytearray(8 << 20); print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert 8 < resident_mib(child.pid) < 80
        child.kill()


async def test_a_program_that_cannot_be_watched_is_stopped(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Watch) -> None:
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(Watch, "sample", fail)
    found = await taking(sandbox, "def take():\n    time.sleep(60); return True")
    assert (found.verdict, found.detail) == (
        Verdict.EXCEPTION,
        "was stopped because it could not be watched: ValueError",
    )


async def test_the_peak_has_shared_memory_and_files_in_memory(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = Watch.sample

    def then_let_it_end(self: Watch) -> object:
        verdict = sample(self)
        if self.peak_mib > 112 and self._shared is not None:
            (self._shared / "seen").touch()
        return verdict

    monkeypatch.setattr(Watch, "sample", then_let_it_end)
    body = """
def take():
    global kept
    kept = mmap.mmap(-1, 64 << 20)
    for place in range(0, 64 << 20, 4096): kept[place] = 1
    for place in ("/tmp", "/box"): os.write(os.open(f"{place}/x", os.O_CREAT | os.O_RDWR), bytes(24 << 20))
    while not os.path.exists("/box/seen"): time.sleep(0.01)
    return True"""
    found = await taking(sandbox, body)
    assert found.passed, found
    assert 112 < (found.memory_mib or 0) < 180


async def test_asyncio_still_works(sandbox: Sandbox) -> None:
    found = await taking(
        sandbox, "import asyncio\nasync def five(): return 5\ndef take(): return asyncio.run(five()) == 5"
    )
    assert found.passed, found


SWEEP = "from reground.sandbox.limits import sweep; sweep()"
HARNESS = """
import asyncio, os, sys
from reground.core.errors import SandboxUnavailable
from reground.core.programs import Limits, Program
from reground.sandbox import find_sandbox
source, tests = "def add(a, b): return a + b", "assert add(2, 3) == 5"
program = Program(source=source, tests=tests, exports=("add",), limits=Limits(seconds=10))
async def main(sandbox):
    return await asyncio.gather(*(sandbox.execute(program) for _ in range(6)))
try:
    print({found.verdict.value for found in asyncio.run(main(find_sandbox(concurrency=6)))})
except SandboxUnavailable as reason:
    print("unavailable:", reason)
"""


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("-n 64", "{'passed'}"),
        ("-n 200", "{'passed'}"),
        ("-n 50", "unavailable: the host limits"),
        ("-t 5", "unavailable: the host limits"),
        ("-t 60", "{'passed'}"),
        ("-f 1000", "unavailable: the host limits"),
        ("-v 900000", "unavailable: the host limits"),
        ("-u 10", "unavailable: "),
    ],
)
def test_a_limit_of_the_host_is_not_the_programs_fault(limit: str, said: str, sandbox: Sandbox) -> None:
    command = f"ulimit {limit} && exec {sys.executable} -c '{HARNESS.replace(chr(39), chr(34))}'"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.startswith(said), (found.stdout, found.stderr[-500:])


OWNER = """
import sys, time
from reground.sandbox.limits import make_workspace
print(make_workspace(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_folders_of_the_dead_are_swept_and_no_others(end: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    owners = [
        subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    folders = [Path(str(owner.stdout and owner.stdout.readline()).strip()) for owner in owners]
    strange = tmp_path / f"{PREFIX}strange"
    strange.mkdir()
    owners[0].send_signal(end)
    owners[0].wait()
    assert [folder.exists() for folder in folders] == [True, True]
    swept = subprocess.run([sys.executable, "-c", SWEEP], env=environment, check=False)
    assert swept.returncode == 0
    assert [folder.exists() for folder in folders] == [False, True]
    assert strange.exists()
    owners[1].kill()
    owners[1].wait()
    subprocess.run([sys.executable, "-c", SWEEP], env=environment, check=False)
    old = time.time() - 7200
    os.utime(strange, (old, old))
    subprocess.run([sys.executable, "-c", SWEEP], env=environment, check=False)
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_in_use_is_left_alone_and_gone_afterwards() -> None:
    folder = make_workspace()
    sweep()
    assert (folder / "shared").is_dir()
    remove(folder)
    assert not folder.exists()


async def test_no_link_in_the_shared_folder_leads_to_what_the_judge_was_told(sandbox: Sandbox) -> None:
    source = """
import os
def plant():
    places = ["/job.json", "/proc/self/cmdline", "/proc/self/environ"]
    places += [f"/proc/{pid}/fd/{n}" for pid in ("self", 1, 2) for n in range(3, 40)]
    for number, place in enumerate(places):
        os.symlink(place, f"/box/{number}")
"""
    tests = """
import os, stat
plant()
secret = "nonc" + "e"
for name in sorted(os.listdir("/box"), key=int):
    try:
        if not stat.S_ISREG(os.stat(f"/box/{name}").st_mode):
            continue
        text = open(f"/box/{name}").read(100_000)
    except OSError:
        continue
    assert secret not in text, os.readlink(f"/box/{name}")
assert os.listdir("/box")
"""
    found = await sandbox.execute(Program(source=source, tests=tests, exports=("plant",)))
    assert found.passed, found
