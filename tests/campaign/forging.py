"""Hostile programs that want a passing verdict: alone, and in families."""

from __future__ import annotations

import functools
import random

from reground.core.programs import Sandbox
from reground.sandbox import find_sandbox
from tests.campaign.runner import Part, Trial
from tests.sandbox.hostile_tricks import ALONE, FAMILIES, Hostile

SLACK_SECONDS = 10.0
"""What starting and ending may take on a busy machine, beside the program's own time."""
SLACK_MIB = 400.0
"""What a watch that looks now and then lets through, and what the interpreter takes."""


@functools.cache
def cases() -> list[tuple[str, Hostile]]:
    """All hostile programs with their families: first those that stand alone, then the families mixed, so that a short
    form sees them all."""
    mixed = [(family.__name__, hostile) for family in FAMILIES for hostile in family()]
    random.Random(0).shuffle(mixed)
    return [*(("alone", hostile) for hostile in ALONE), *mixed]


@functools.cache
def _sandbox(packages: bool) -> Sandbox:
    return find_sandbox(concurrency=2, packages=packages)


async def attempt(number: int) -> list[Trial]:
    """One program; the second time round it sees the installed packages."""
    family, hostile = cases()[number % len(cases())]
    return [await judged(hostile, _sandbox(packages=number // len(cases()) % 2 == 1), family)]


async def judged(hostile: Hostile, sandbox: Sandbox, family: str = "") -> Trial:
    """Whether a program's verdict is one that it may get, in its time, within its memory."""
    program = hostile.program
    found = await sandbox.execute(program)
    in_time = found.seconds < program.limits.seconds + SLACK_SECONDS
    in_memory = found.memory_mib is None or found.memory_mib < program.limits.memory_mib + SLACK_MIB
    said = f"{hostile.name}: {found.verdict}, {found.seconds:.1f} s, {found.memory_mib} MiB, {found.detail[:200]}"
    return Trial(f"Hostile program: {family}", found.verdict in hostile.allowed and in_time and in_memory, said)


PART = Part(
    name="forging",
    promise="No hostile program gets a wrong verdict or exceeds its limits",
    short=150,
    long=2 * len(cases()),
    attempt=attempt,
    at_once=2,
)
