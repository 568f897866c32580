"""Hostile programs that want a passing verdict: alone, and in families."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

from reground.core.programs import Limits, Program, Sandbox, Verdict
from reground.sandbox import find_sandbox
from tests.campaign.runner import Part, Trial
from tests.sandbox.hostile_families import ALONE, Hostile, hostile_programs
from tests.sandbox.hostile_tricks import TRICKS

HASTY = Limits(seconds=2, memory_mib=256)
# For programs that must end by themselves: a busy machine's slowness is not to be taken for their verdict.
PATIENT = Limits(seconds=20, memory_mib=256)
SLACK_SECONDS = 10.0
"""What starting and ending may take on a busy machine, beside the program's own time."""
SLACK_MIB = 400.0
"""What a watch that looks now and then lets through, and what the interpreter takes."""
_NOT_PASSED = frozenset(Verdict) - {Verdict.PASSED}


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
    return [_case("alone", hostile) for hostile in ALONE] + [_case(*each) for each in families]


def _case(family: str, hostile: Hostile) -> Case:
    allowed = frozenset(map(Verdict, hostile.expect.split(", "))) if hostile.expect else _NOT_PASSED
    limits = HASTY if Verdict.TIMEOUT in allowed else PATIENT
    if hostile.tests is None:
        program = Program(source=hostile.source, stdin="2 3\n", expected_stdout="5\n", limits=limits)
    else:
        program = Program(source=hostile.source, tests=hostile.tests, exports=("add",), limits=limits)
    return Case(hostile.name, family, program, allowed)


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
