"""The short form of the campaign, and its records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.campaign import escapes
from tests.campaign.__main__ import PARTS
from tests.campaign.runner import Part, Trial, fallen, read, run, table
from tests.sandbox.needed import skipping_without

LONG = ("kills", "faults", "forging")


@pytest.mark.parametrize(
    "part", [pytest.param(part, id=part.name, marks=pytest.mark.slow if part.name in LONG else ()) for part in PARTS]
)
async def test_every_promise_holds_in_the_short_form(part: Part) -> None:
    with skipping_without():
        trials = await run(part, part.short)
    assert len(trials) >= part.short
    assert fallen(trials) == []


async def test_a_door_that_stands_open_is_seen() -> None:
    with skipping_without():
        trial = await escapes.tried("a file of its own", "return open('/box/x', 'w')", "in a child")
    assert not trial.held, trial


async def every_third_falls(number: int) -> list[Trial]:
    return [Trial("kind", number % 3 != 0, str(number))]


WEAK = Part("weak", "Nothing falls", 2, 6, every_third_falls)


async def test_a_campaign_goes_on_where_it_stopped_and_counts_what_fell(tmp_path) -> None:
    await run(WEAK, 2, tmp_path)
    with (tmp_path / "weak.jsonl").open("ab") as file:
        file.write(b"[2, [")
    assert list(read(tmp_path / "weak.jsonl")) == [0, 1]
    trials = await run(WEAK, 6, tmp_path)
    assert [trial.what for trial in trials] == list("012345")
    assert fallen(trials) == ["kind: 0", "kind: 3"]
    assert "| **Nothing falls** | **6** | **2** |\n| kind | 6 | 2 |" in table([(WEAK, trials)])


def test_the_page_says_of_each_part_what_was_planned_and_tried() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "reliability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \| \d+ \|$", page, re.MULTILINE)
    counts = {promise: [int(count.replace(",", "")) for count in each] for promise, *each in rows}
    assert {part.promise: counts[part.promise][0] for part in PARTS} == {part.promise: part.long for part in PARTS}
    assert all(counts[part.promise][1] >= part.long for part in PARTS)  # a whole run
