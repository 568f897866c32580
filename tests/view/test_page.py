"""The page in a real browser: served, exported, with hostile texts, light and dark, wide and narrow."""

from contextlib import asynccontextmanager

import pytest

from reground.core.files import replace_lines
from reground.core.trajectory import append_trajectory, write_trajectories
from reground.evaluation.results import open_run
from reground.view.contents import Contents
from reground.view.server import exported
from tests.browser import browser_page
from tests.view.samples import HOSTILE, config, failed, hostile, record, run_folder, told
from tests.view.test_server import viewing

SHOWN = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")
"""The hostile text as the page shows it: characters that act on the text around them are replaced."""


def expect(locator):
    """An assertion that waits. It asks from outside the page, whose policy lets no text become a script."""
    from playwright.async_api import expect as waiting

    return waiting(locator)


def wrong(browsed):
    """What the page complained of. A request for news that ended with its page, by a reload, is no fault."""
    return [each for each in browsed.complaints if "/news?" not in each]


async def texts(page, selector):
    found: list[str] = await page.locator(selector).all_inner_texts()
    return found


def export(place, out):
    replace_lines(out, exported(Contents(place)))
    return out.as_uri()


@asynccontextmanager
async def shown(place, at="", wait=".row"):
    """The page of a path in a browser, as soon as something is there, and its address. Nothing goes wrong in it."""
    async with viewing(place) as url, browser_page() as browsed:
        await browsed.page.goto(f"{url}{at}")
        await browsed.page.wait_for_selector(wait)
        yield browsed.page, url
        assert wrong(browsed) == []


async def test_from_the_table_to_one_call_and_back_by_keys(tmp_path):
    await run_folder(tmp_path / "runs" / "rat")
    await run_folder(tmp_path / "runs" / "direct", "direct")
    async with shown(tmp_path / "runs") as (page, _):
        await page.get_by_role("row", name="rat").get_by_role("link", name="0.500").click()
        await expect(page.locator(".row")).to_have_count(3)
        assert await texts(page, ".row .score") == ["failed", "0.00", "1.00"]  # sorted by score, of one run
        for key in ("j", "j", "k", "j", "Enter"):
            await page.keyboard.press(key)
        await page.wait_for_selector(".steps")
        assert "(1)" in await page.inner_text("h1")
        assert await page.evaluate("document.activeElement.tagName") == "H1"
        await page.keyboard.press("n")
        await expect(page.locator("h1")).to_contain_text("(0)")
        await page.get_by_role("link", name="Messages and reply").first.click()
        await page.wait_for_selector(".message")
        assert "Think step by step" in await page.inner_text(".message >> nth=0")
        assert "Vienna lies on the Danube." in await page.inner_text(".message >> nth=1")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(".steps")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#questions")
        assert await page.evaluate("document.activeElement.innerText.includes('(0)')")  # back where it was


async def test_the_same_question_is_one_of_the_same_task_and_words(tmp_path):
    """Of questions without ids the numbers of their lines are the ids, in every file the same."""
    runs = {"rat": config(), "direct": config("direct"), "other": config(task="seas"), "again": config("rag", data="e")}
    for name, about in runs.items():
        each = (await told("1~0")).model_copy(update={"question": "Another one?"} if name == "again" else {})
        with open_run(tmp_path / "runs" / name, about) as folder:
            folder.append(each)
            folder.append_record(record(each, 1.0))
    async with browser_page() as browsed:
        page = browsed.page
        await page.goto(export(tmp_path / "runs", tmp_path / "runs.html"))
        await page.wait_for_selector(".row")
        assert "Tasks rivers, seas, model m/one." in await page.inner_text("#runs")
        await page.get_by_role("row", name="rat rivers").get_by_role("link").first.click()
        await page.click(".row")
        await page.wait_for_selector(".steps")
        elsewhere = page.locator("section", has=page.locator("h2", has_text="The same question elsewhere (1)"))
        assert "direct" in await elsewhere.locator(".row .about").text_content()
        assert wrong(browsed) == []


async def test_the_story_shows_what_changed_and_what_supports_it(tmp_path):
    write_trajectories(tmp_path / "t.jsonl", [await told()])
    async with shown(tmp_path / "t.jsonl", "/#/q/0", ".steps") as (page, _):
        assert await texts(page, ".answer .supported") == ["Vienna lies on the Danube river."]
        assert await texts(page, ".answer .unsupported") == ["The Danube has 2850 km."]
        assert await page.inner_text("blockquote") == "The Danube is 2850 km long and flows through Vienna."
        assert (await page.inner_text("figcaption")).endswith(", slide 3")
        assert await texts(page, ".misquoted li") == ["It has 3000 km."]
        assert (await texts(page, ".steps del"))[:2] == [" Danube.", " 2000 km."]
        assert (await texts(page, ".steps ins"))[:2] == [" Danube river.", " 2850 km [1]."]
        assert (await texts(page, ".steps mark.qs"))[:2] == ["Danube", "Vienna"]
        assert "Rhine" in await texts(page, ".steps mark.q")
        assert await page.inner_text(".candidates .chosen .text") == "Look the Danube up."
        summary = page.locator(".of-note > details > summary").last
        await summary.focus()
        await page.keyboard.press("Enter")
        assert "the tokens" in await page.inner_text(".of-note dl")
        await page.get_by_role("button", name="Close all").click()
        assert await page.locator(".steps > li > details[open]").count() == 0


async def test_the_filter_the_order_and_a_reload_keep_the_place(tmp_path):
    await run_folder(tmp_path / "rat")
    async with shown(tmp_path) as (page, url):
        await page.keyboard.press("/")
        await page.keyboard.type("no ANSWER")
        assert await page.inner_text("#count") == "1 of 3 questions"
        await page.keyboard.press("Escape")
        assert await page.inner_text("#count") == "3 questions"
        await page.keyboard.press("Escape")
        await page.select_option("#show", "right")
        await page.select_option("#sort", "tokens")
        await page.reload()
        await page.wait_for_selector(".row")
        assert await page.inner_text("#count") == "1 of 3 questions"
        await page.click(".row")
        await page.wait_for_selector(".steps")
        await page.reload()
        await page.wait_for_selector(".steps")
        assert "Question 1 of 1" in await page.inner_text(".crumbs")
        await page.goto(f"{url}/#/q/99")
        await page.wait_for_selector(".failure")
        assert "no such question" in await page.inner_text(".failure")


async def test_a_run_that_goes_on_shows_its_new_questions(tmp_path):
    trajectory = await told("q0~0")
    with open_run(tmp_path / "run", config()) as folder:
        folder.append(trajectory)
        async with shown(folder.path) as (page, _):
            assert await texts(page, ".row .score") == ["1/2"]  # of its claims, until it has a score
            await page.focus(".row")
            folder.append_record(record(trajectory, 1.0))
            folder.append(failed("q1~0"))
            await expect(page.locator(".row")).to_have_count(2, timeout=10_000)
            assert await texts(page, ".row .score") == ["1.00", "failed"]
            assert await page.evaluate("document.activeElement.dataset.n") == "0"
            assert "2 of 10" in await page.inner_text("table")


async def test_hostile_text_is_shown_as_text(tmp_path):
    path = tmp_path / "t.jsonl"
    append_trajectory(path, hostile(await told()))
    append_trajectory(path, failed("x").model_copy(update={"question": HOSTILE, "id": HOSTILE}))
    async with shown(path) as (page, url):
        for address in (url, export(path, tmp_path / "page.html")):
            await page.goto(address)
            await page.wait_for_selector(".row")
            assert " ".join(SHOWN.split()) in (await texts(page, ".row .question"))[1]
            await page.click(".row >> nth=0")
            await page.wait_for_selector(".steps")
            assert SHOWN in await page.inner_text("h1")
            assert SHOWN.strip() in await page.text_content(".answer")
            await page.get_by_role("link", name="Messages and reply").first.click()
            await page.wait_for_selector(".message")
            assert SHOWN in await page.text_content(".message >> nth=0")
            assert await page.locator("main img, main script, main b:has-text('bold')").count() == 0
            assert await page.title() != "broken"


async def test_one_file_has_everything_and_needs_no_server(tmp_path):
    await run_folder(tmp_path / "runs" / "rat")
    async with browser_page() as browsed:
        page = browsed.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(export(tmp_path / "runs", tmp_path / "runs.html"))
        await page.click(".row >> nth=0")
        await page.wait_for_selector(".steps")
        await page.reload()
        await page.wait_for_selector(".steps")
        await page.keyboard.press("Escape")
        await page.fill("#filter", "(1)")
        assert await page.inner_text("#count") == "1 of 3 questions"
        assert all(url.startswith(("file:", "data:")) for url in asked)
        assert wrong(browsed) == []


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (400, False), (400, True)])
async def test_everyone_can_use_it(tmp_path, width, dark):
    await run_folder(tmp_path / "runs" / "rat")
    await run_folder(tmp_path / "runs" / "direct", "direct", finished=False)
    async with browser_page(width=width, dark=dark) as browsed, viewing(tmp_path / "runs") as runs:
        page = browsed.page
        for address, wait in (
            (runs, ".row"),
            (f"{runs}/#/q/1", ".steps"),
            (f"{runs}/#/q/2", ".failure"),
            (f"{runs}/#/q/1/call/0", ".message"),
        ):
            await page.goto("about:blank")
            await page.goto(address)
            await page.wait_for_selector(wait)
            assert await browsed.unusable() == [], address
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert wrong(browsed) == []


async def test_a_thousand_questions_are_shown_in_parts(tmp_path):
    trajectory = await told()
    with open_run(tmp_path / "run", config(limit=1000)) as folder:
        every = [trajectory.model_copy(update={"id": f"q{n}~0"}) for n in range(1000)]
        write_trajectories(folder.trajectories, every)
        for each in every:
            folder.append_record(record(each, 1.0))
    async with shown(tmp_path / "run") as (page, _):
        await expect(page.locator("#count")).to_have_text("1000 questions", timeout=20_000)
        assert await page.locator(".row").count() == 300
        await page.locator(".row").last.focus()
        await page.keyboard.press("j")
        assert await page.locator(".row").count() == 600
