"""The Docker sandbox: the command it builds, and its refusals. No daemon is needed."""

import sys
from pathlib import Path

import pytest

from reground.core.errors import SandboxUnavailable
from reground.core.programs import Limits, Program, Verdict
from reground.sandbox import find_sandbox
from reground.sandbox.docker import Docker, find_docker
from reground.sandbox.engine import Engine, Job

FAKE = """#!{python}
import json, os, re, subprocess, sys
if sys.argv[1] != "run":
    sys.exit(0)
volumes = [re.fullmatch(r"(.+?):(/[^:]+):r[ow]", v) for v in sys.argv if v.endswith((":ro", ":rw"))]
volumes = dict(reversed(found.groups()) for found in volumes)
boot = sys.argv[-1].replace("/reground", os.path.dirname(volumes["/reground/harness"]))
boot = boot.replace("/job.json", volumes["/job.json"])
os.execv({python!r}, ["python", "-c", boot])
"""


def _job(tmp_path: Path, *, shared: bool) -> Job:
    return Job("program", {}, Limits(), tmp_path, 5, tmp_path if shared else None)


def test_the_command_isolates(tmp_path: Path) -> None:
    launch = Docker("docker", "python:3.12-slim").launch(_job(tmp_path, shared=False))
    command = " ".join(launch.command)
    for option in (
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--pids-limit 18",
        "--memory 544m --memory-swap 544m",
        "--pull never",
        "--tmpfs /box:",
    ):
        assert option in command
    assert "-v " not in command
    assert launch.command[launch.command.index("--name") + 1] == launch.tidy[-1]


def test_a_shared_folder_is_the_only_one_that_can_be_written(tmp_path: Path) -> None:
    command = " ".join(Docker("docker", "image").launch(_job(tmp_path, shared=True)).command)
    assert f"{tmp_path}:/box:rw" in command
    assert command.count(":rw ") == 1


def test_without_docker_it_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="no docker here"):
        find_sandbox("docker")


@pytest.mark.parametrize(("failing", "said"), [("version", "daemon does not answer"), ("image", "docker pull")])
def test_without_daemon_or_image_it_is_refused(failing: str, said: str, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1" != {failing} ]\n')
    docker.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=said):
        find_docker(str(docker))


def stand_in(folder: Path) -> Path:
    """Starts the same harness over the same three streams, without any isolation."""
    docker = folder / "docker"
    docker.write_text(FAKE.format(python=sys.executable))
    docker.chmod(0o755)
    return docker


async def test_the_conversation_fits_what_docker_offers(tmp_path: Path) -> None:
    sandbox = Engine(find_docker(str(stand_in(tmp_path))))
    passed = Program(source="def f(x): return x + 1", tests="assert f(1) == 2", exports=("f",))
    assert (await sandbox.execute(passed)).verdict is Verdict.PASSED
    assert (await sandbox.execute(Program(source="print(6)", expected_stdout="6"))).passed
    assert (await sandbox.execute(Program(source="x = 6", returns="x"))).value == 6


@pytest.mark.parametrize("status", [125, 126, 127])
async def test_a_program_may_end_with_a_status_that_docker_uses(status: int, tmp_path: Path) -> None:
    sandbox = Engine(find_docker(str(stand_in(tmp_path))))
    ended = f"import os, sys; print('said', file=sys.stderr, flush=True); os._exit({status})"
    alone = await sandbox.execute(Program(source=ended))
    assert (alone.verdict, alone.stderr, alone.detail) == (Verdict.EXCEPTION, "said\n", "said")
    tested = await sandbox.execute(Program(source=ended, tests="assert f()", exports=("f",)))
    assert (tested.verdict, tested.stdout) == (Verdict.EXCEPTION, "said\n")


async def test_why_a_container_did_not_start_is_said(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    said = "docker: the daemon is gone.\n\nRun 'docker run --help' for more information"
    docker.write_text(f'#!/bin/sh\n[ "$1" = run ] || exit 0\necho "{said}" >&2\nexit 125\n')
    docker.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"set up: docker: the daemon is gone\."):
        await Engine(find_docker(str(docker))).execute(Program(source="print(1)"))
