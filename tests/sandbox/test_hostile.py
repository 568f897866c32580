"""Honest programs pass what the hostile ones are up against. Those are tried by `tests/campaign/forging.py`."""

import pytest

from reground.core.programs import Program, Sandbox
from tests.campaign.forging import judged
from tests.sandbox.hostile_tricks import HONEST, PATIENT, STYLES, Hostile, hollow


async def test_an_honest_program_reads_and_prints(sandbox: Sandbox) -> None:
    reader = "print(sum(map(int, input().split())))"
    assert (await sandbox.execute(Program(source=reader, stdin="2 3\n", expected_stdout="5", limits=PATIENT))).passed


@pytest.mark.parametrize("style", STYLES)
async def test_an_honest_program_passes_what_the_families_are_up_against(style: str, sandbox: Sandbox) -> None:
    if "numpy" in STYLES[style]:
        pytest.importorskip("numpy")
    found = await sandbox.execute(Program(source=HONEST, tests=STYLES[style], exports=("add",), limits=PATIENT))
    assert found.passed, found


async def test_a_verdict_that_was_not_earned_would_be_seen(sandbox: Sandbox) -> None:
    assert not (await judged(Hostile("honest", HONEST), sandbox)).held


@pytest.mark.parametrize("hostile", [*hollow()], ids=lambda each: each.name)
async def test_a_container_is_judged_by_what_it_holds(hostile: Hostile, sandbox: Sandbox) -> None:
    assert (found := await judged(hostile, sandbox)).held, found
