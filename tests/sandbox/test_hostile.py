"""Every program in `hostile/` gets a verdict that its first line names, no other passes, and each ends soon."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from reground.core.errors import SandboxUnavailable
from reground.core.programs import Execution, Limits, Program, Sandbox, Verdict
from reground.sandbox import find_sandbox
from tests.sandbox.hostile_families import HONEST, STYLES, Hostile, hostile_programs

PROGRAMS = sorted((Path(__file__).parent / "hostile").glob("*.py"))
TESTS = "assert add(2, 3) == 5\nassert add(-1, 1) == 0\nassert add(0.5, 0.25) == 0.75\n"
HASTY = Limits(seconds=2, memory_mib=256)
# For programs that must end by themselves: a busy machine's slowness is not to be taken for their verdict.
PATIENT = Limits(seconds=20, memory_mib=256)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    try:
        return find_sandbox()
    except SandboxUnavailable as reason:
        pytest.skip(str(reason))


def _said(source: str, name: str) -> list[str]:
    return re.findall(rf"^# {name}: (.*)$", source, re.MULTILINE)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
async def test_a_hostile_program_gets_its_verdict(path: Path, sandbox: Sandbox) -> None:
    source = path.read_text()  # noqa: ASYNC240
    allowed = {Verdict(verdict) for verdict in _said(source, "expect")[0].split(", ")}
    for text in _said(source, "append"):
        source += text * int([*_said(source, "repeat"), "1"][0])
    limits = HASTY if Verdict.TIMEOUT in allowed else PATIENT
    if _said(source, "run") == ["stdin"]:
        program = Program(source=source, stdin="2 3\n", expected_stdout="5\n", limits=limits)
    else:
        tests = "\n".join(_said(source, "tests")) or TESTS
        program = Program(source=source, tests=tests, exports=("add",), limits=limits)

    execution = await sandbox.execute(program)

    assert Verdict.PASSED not in allowed
    assert execution.verdict in allowed, execution
    assert execution.seconds < 30, execution


async def test_an_honest_program_passes_the_same_tests(sandbox: Sandbox) -> None:
    source = "def add(a, b):\n    return a + b\n"
    assert (await sandbox.execute(Program(source=source, tests=TESTS, exports=("add",), limits=PATIENT))).passed
    reader = "print(sum(map(int, input().split())))"
    assert (await sandbox.execute(Program(source=reader, stdin="2 3\n", expected_stdout="5", limits=PATIENT))).passed


FAMILIES = hostile_programs()


@pytest.fixture(scope="module")
def campaign() -> dict[str, Execution]:
    """What became of each program of the families: all at once, for one after the other they take minutes."""
    try:
        sandbox = find_sandbox(concurrency=4)
    except SandboxUnavailable as reason:
        pytest.skip(str(reason))

    async def run(hostile: Hostile) -> Execution:
        return await sandbox.execute(
            Program(source=hostile.source, tests=hostile.tests, exports=("add",), limits=HASTY)
        )

    async def run_all() -> list[Execution]:
        return await asyncio.gather(*map(run, FAMILIES))

    found = asyncio.run(run_all())
    return {hostile.name: execution for hostile, execution in zip(FAMILIES, found, strict=True)}


@pytest.mark.parametrize("name", [hostile.name for hostile in FAMILIES])
def test_no_program_of_the_families_passes(name: str, campaign: dict[str, Execution]) -> None:
    execution = campaign[name]
    assert not execution.passed, execution
    assert execution.seconds < 10, execution


@pytest.mark.parametrize("style", STYLES)
async def test_an_honest_program_passes_what_the_families_are_up_against(style: str, sandbox: Sandbox) -> None:
    if "numpy" in STYLES[style]:
        pytest.importorskip("numpy")
    found = await sandbox.execute(Program(source=HONEST, tests=STYLES[style], exports=("add",), limits=PATIENT))
    assert found.passed, found


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) >= 20
    assert len(PROGRAMS) + len({hostile.name for hostile in FAMILIES}) >= 240
