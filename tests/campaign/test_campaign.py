"""The short form of the campaign, and its records."""

from __future__ import annotations

import pytest

from tests.campaign.parts import PARTS
from tests.campaign.runner import fallen, read, run, table
from tests.campaign.trial import Part, Trial


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
async def test_every_promise_holds_in_the_short_form(part: Part) -> None:
    trials = await run(part, part.short)
    assert len(trials) >= part.short
    assert fallen(trials) == []


async def every_third_falls(number: int) -> list[Trial]:
    return [Trial("kind", number % 3 != 0, str(number))]


WEAK = Part("weak", "Nothing falls", 2, 6, every_third_falls)


async def test_a_campaign_goes_on_where_it_stopped_and_counts_what_fell(tmp_path) -> None:
    await run(WEAK, 2, tmp_path)
    with (tmp_path / "weak.jsonl").open("ab") as file:
        file.write(b"[2, [")
    assert [number for number, _ in read(tmp_path / "weak.jsonl")] == [0, 1]
    trials = await run(WEAK, 6, tmp_path)
    assert [trial.what for trial in trials] == list("012345")
    assert fallen(trials) == ["kind: 0", "kind: 3"]
    assert "| **Nothing falls** | **6** | **2** |\n| kind | 6 | 2 |" in table([(WEAK, trials)])
