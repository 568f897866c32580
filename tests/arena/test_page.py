"""The arena's page in a real browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.arena.runs import three_runs, write_run
from tests.arena.serving import Arena
from tests.browser import Browsed, browser_page

HOSTILE = (
    "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>\n</div><b>bold</b> &lt; javascript:"
)


@asynccontextmanager
async def opened(arena: Arena, judge: str | None = "Anna", **options: bool | int) -> AsyncIterator[Browsed]:
    """The page of a running arena, entered as a judge."""
    async with browser_page(**options) as browsed:
        await browsed.page.goto(arena.origin)
        if judge is not None:
            await entered(browsed, judge)
        yield browsed


async def entered(browsed: Browsed, judge: str) -> None:
    await browsed.page.fill("#name", judge)
    await browsed.page.press("#name", "Enter")
    await browsed.page.wait_for_selector("#arena")


async def count(browsed: Browsed, text: str) -> None:
    """Wait until the page says this of its progress and takes votes again."""
    await shown(browsed, "#count", f"^{re.escape(text)}$")


async def shown(browsed: Browsed, place: str, text: str) -> None:
    """Wait until a place says this, and the page takes votes again. By no function: the page forbids `eval`."""
    await browsed.page.locator(place, has_text=re.compile(text)).wait_for()
    await asyncio.sleep(0.4)


async def seen(browsed: Browsed) -> str:
    """The question and both answers."""
    return "|".join([await browsed.page.inner_text(place) for place in ("#question", "#a", "#b")])


def arena(folder: Path) -> Arena:
    return Arena(three_runs(folder), folder / "votes.sqlite")


async def test_a_judge_votes_by_button_and_by_key_skips_reloads_and_begins_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as served, opened(served) as browsed:
        page = browsed.page
        await count(browsed, "0 of 9 judged, round 1")
        assert await page.evaluate("document.activeElement.id") == "asked"
        await page.click("[data-verdict=tie]")
        await count(browsed, "1 of 9 judged, round 1")
        assert await page.inner_text("#status") == "Vote saved."
        skipped = await seen(browsed)
        await page.keyboard.press("s")
        await shown(browsed, "#status", "^Skipped")
        assert await seen(browsed) != skipped
        for number, key in enumerate(["a", "B", "x", "t", "a", "b", "a"], start=2):
            await page.keyboard.press(key)
            await count(browsed, f"{number} of 9 judged, round 1")
        assert await seen(browsed) == skipped
        assert await page.inner_text("#status") == "Vote saved. You skipped this pair before. The last pair."
        await page.reload()
        await count(browsed, "8 of 9 judged, round 1")
        assert await page.inner_text("#judge") == "Anna"
        await page.keyboard.press("x")
        await count(browsed, "9 of 9 judged, round 1")
        assert await page.is_visible("#finished") and not await page.is_visible("#verdicts")
        await page.keyboard.press("n")
        await count(browsed, "0 of 9 judged, round 2")
        said = [vote.verdict for vote in served.votes.all()]
        assert (len(said), said.count("tie"), said.count("bad")) == (9, 2, 2)
        assert browsed.complaints == []


async def test_a_new_round_before_the_end_is_asked_about(tmp_path: Path) -> None:
    async with arena(tmp_path) as served, opened(served) as browsed:
        page = browsed.page
        await count(browsed, "0 of 9 judged, round 1")
        await page.click("#round")
        assert await page.is_visible("#sure")
        await page.keyboard.press("a")
        await page.keyboard.press("Escape")
        assert not await page.is_visible("#sure")
        await page.click("#round")
        await page.click("#yes")
        await count(browsed, "0 of 9 judged, round 2")
        assert served.votes.all() == []


async def test_a_second_press_at_once_is_no_vote_on_the_next_pair_and_typing_is_none(tmp_path: Path) -> None:
    async with arena(tmp_path) as served, opened(served) as browsed:
        page = browsed.page
        await count(browsed, "0 of 9 judged, round 1")
        await page.keyboard.press("a")
        await page.keyboard.press("a")
        await count(browsed, "1 of 9 judged, round 1")
        await page.keyboard.press("Control+a")
        await page.click("summary")
        await page.click("#keys")
        await page.keyboard.press("a")
        await page.click("#leave")
        await page.fill("#name", "")
        await page.type("#name", "abtxsn")
        await page.press("#name", "Enter")
        await page.wait_for_selector("#arena")
        assert await page.inner_text("#judge") == "abtxsn"
        assert len(served.votes.all()) == 1


async def test_two_judges_at_once_have_pairs_and_counts_of_their_own(tmp_path: Path) -> None:
    async with arena(tmp_path) as served, opened(served) as anna, opened(served, "Ben") as ben:
        await count(anna, "0 of 9 judged, round 1")
        await asyncio.gather(anna.page.click("[data-verdict=a]"), ben.page.click("[data-verdict=b]"))
        await count(anna, "1 of 9 judged, round 1")
        await ben.page.click("[data-verdict=tie]")
        await count(ben, "2 of 9 judged, round 1")
        assert sorted(vote.judge for vote in served.votes.all()) == ["Anna", "Ben", "Ben"]
        assert anna.complaints == ben.complaints == []


async def test_hostile_answers_are_text(tmp_path: Path) -> None:
    answers = ({"q": HOSTILE}, {"q": HOSTILE.replace("bold", "fat")})
    runs = [write_run(tmp_path / f"r{n}", f"m{n}", each) for n, each in enumerate(answers)]
    async with Arena(runs, tmp_path / "v.sqlite") as served, opened(served, "<i>Eve</i>") as browsed:
        shown = {await browsed.page.inner_text(place) for place in ("#a", "#b")}
        assert shown == {each["q"] for each in answers}
        assert await browsed.page.inner_text("#judge") == "<i>Eve</i>"
        assert await browsed.page.evaluate("window.broken === undefined")
        assert await browsed.page.locator("main img, main b, main script").count() == 0
        assert browsed.complaints == []


async def test_what_cannot_be_saved_is_said_and_can_be_sent_again(tmp_path: Path) -> None:
    async with arena(tmp_path) as served, opened(served) as browsed:
        await count(browsed, "0 of 9 judged, round 1")
        port = served.port
        await served._runner.cleanup()
        await browsed.page.keyboard.press("a")
        await browsed.page.wait_for_selector("#problem:not(:empty)")
        assert "Nothing was saved" in await browsed.page.inner_text("#problem")
        await served.start(port)
        await browsed.page.keyboard.press("a")
        await count(browsed, "1 of 9 judged, round 1")
        assert await browsed.page.inner_text("#problem") == ""


async def test_a_page_that_is_out_of_date_goes_on(tmp_path: Path) -> None:
    async with arena(tmp_path) as served, opened(served) as browsed:
        await count(browsed, "0 of 9 judged, round 1")
        served.votes.begin_round("Anna", 2)
        await browsed.page.keyboard.press("a")
        await count(browsed, "0 of 9 judged, round 2")
        assert "no longer open" in await browsed.page.inner_text("#status")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1200])
async def test_everyone_can_use_it_in_light_and_dark_on_a_phone_and_a_desk(
    dark: bool, width: int, tmp_path: Path
) -> None:
    words = "word " * 400 + "x" * 300
    runs = [write_run(tmp_path / name, name, {"q": name + words}) for name in "ab"]
    async with (
        Arena(runs, tmp_path / "v.sqlite") as served,
        opened(served, None, dark=dark, width=width) as browsed,
    ):
        page = browsed.page
        assert await browsed.unusable() == []
        await entered(browsed, "Anna")
        await count(browsed, "0 of 1 judged, round 1")
        assert await browsed.unusable() == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.click("#round")
        assert await browsed.unusable() == []
        await page.click("#no")
        await page.keyboard.press("Shift+Tab")
        ring = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(ring) == "solid"
        await page.keyboard.press("a")
        await count(browsed, "1 of 1 judged, round 1")
        assert await browsed.unusable() == []
        assert browsed.complaints == []
