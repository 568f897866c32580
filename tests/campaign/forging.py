"""Hostile programs that want a passing verdict: those in `tests/sandbox/hostile/`, and the families."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import dataclass
from pathlib import Path

from reground.core.programs import Limits, Program, Sandbox, Verdict
from reground.sandbox import find_sandbox
from tests import sandbox
from tests.campaign.runner import Part, Trial
from tests.sandbox.hostile_families import PLAIN, hostile_programs
from tests.sandbox.hostile_tricks import TRICKS

HASTY = Limits(seconds=2, memory_mib=256)
# For programs that must end by themselves: a busy machine's slowness is not to be taken for their verdict.
PATIENT = Limits(seconds=20, memory_mib=256)
SLACK_SECONDS = 10.0
"""What starting and ending may take on a busy machine, beside the program's own time."""
SLACK_MIB = 400.0
"""What a watch that looks now and then lets through, and what the interpreter takes."""
_NOT_PASSED = frozenset(Verdict) - {Verdict.PASSED}
_ALONE = Path(sandbox.__file__).parent / "hostile"


@dataclass(frozen=True)
class Case:
    """A hostile program, where it comes from, and the verdicts that it may get."""

    name: str
    family: str
    program: Program
    allowed: frozenset[Verdict] = _NOT_PASSED


@functools.cache
def cases() -> list[Case]:
    """All hostile programs: first those that stand alone, then the families mixed, so that a short form sees them all."""
    families = [(hostile.name.partition("-")[0], hostile) for hostile in hostile_programs()]
    families += [(family.__name__, hostile) for family in TRICKS for hostile in family()]
    random.Random(0).shuffle(families)
    return [*map(_alone, sorted(_ALONE.glob("*.py")))] + [
        Case(hostile.name, family, Program(source=hostile.source, tests=hostile.tests, exports=("add",), limits=HASTY))
        for family, hostile in families
    ]


def _alone(path: Path) -> Case:
    """A program that says in comments which verdicts it may get, and against which tests."""
    source = path.read_text("utf-8")
    allowed = frozenset(Verdict(verdict) for verdict in _said(source, "expect")[0].split(", "))
    for text in _said(source, "append"):
        source += text * int([*_said(source, "repeat"), "1"][0])
    limits = HASTY if Verdict.TIMEOUT in allowed else PATIENT
    if _said(source, "run") == ["stdin"]:
        program = Program(source=source, stdin="2 3\n", expected_stdout="5\n", limits=limits)
    else:
        tests = "\n".join(_said(source, "tests")) or PLAIN
        program = Program(source=source, tests=tests, exports=("add",), limits=limits)
    return Case(path.stem, "alone", program, allowed - {Verdict.PASSED})


def _said(source: str, name: str) -> list[str]:
    return re.findall(rf"^# {name}: (.*)$", source, re.MULTILINE)


@functools.cache
def _sandbox(packages: bool) -> Sandbox:
    return find_sandbox(concurrency=2, packages=packages)


async def attempt(number: int) -> list[Trial]:
    """One program; the second time round it sees the installed packages."""
    case = cases()[number % len(cases())]
    return await judged(case, _sandbox(packages=number // len(cases()) % 2 == 1))


async def judged(case: Case, sandbox: Sandbox) -> list[Trial]:
    """Whether a program's verdict is one that it may get, in its time, within its memory."""
    found = await sandbox.execute(case.program)
    limits = case.program.limits
    in_time = found.seconds < limits.seconds + SLACK_SECONDS
    in_memory = found.memory_mib is None or found.memory_mib < limits.memory_mib + SLACK_MIB
    said = f"{case.name}: {found.verdict}, {found.seconds:.1f} s, {found.memory_mib} MiB, {found.detail[:200]}"
    return [Trial(f"Hostile program: {case.family}", found.verdict in case.allowed and in_time and in_memory, said)]


PART = Part(
    name="forging",
    promise="No hostile program gets a wrong verdict or exceeds its limits",
    short=150,
    long=2 * len(cases()),
    attempt=attempt,
    at_once=2,
)
