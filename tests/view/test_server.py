"""The viewer's server: what it gives, and to whom."""

from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from reground.core.trajectory import write_trajectories
from reground.view.contents import Contents
from reground.view.server import service
from tests.view.samples import failed, told


@asynccontextmanager
async def viewing(place, host="127.0.0.1"):
    """A running viewer's address."""
    runner = web.AppRunner(service(Contents(place), host=host))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def get(url, **headers):
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        body = await (response.json() if response.content_type == "application/json" else response.text())
        return response.status, body, response.headers


async def test_the_list_is_light_and_a_question_comes_on_demand(tmp_path):
    write_trajectories(tmp_path / "t.jsonl", [await told(), failed("x")])
    async with viewing(tmp_path / "t.jsonl") as url:
        _, news, _ = await get(f"{url}/news")
        assert [item["id"] for item in news["items"]] == ["q0", "x"] and not news["more"]
        assert "steps" not in news["items"][0]
        _, again, _ = await get(f"{url}/news?epoch={news['epoch']}&since={news['change']}")
        assert again["items"] == []
        status, whole, _ = await get(f"{url}/question/0?epoch={news['epoch']}")
        assert status == 200 and whole["steps"]
        assert (await get(f"{url}/question/0?epoch=1"))[:2] == (409, {"error": "the file was replaced"})
        assert (await get(f"{url}/question/9?epoch={news['epoch']}"))[:2] == (
            404,
            {"error": "no question has the number 9"},
        )
        assert (await get(f"{url}/news?since=x"))[:2] == (400, {"error": "since must be a number"})
        assert (await get(f"{url}/elsewhere"))[0] == 404


async def test_every_reply_has_the_strict_headers(tmp_path):
    (tmp_path / "t.jsonl").touch()
    async with viewing(tmp_path / "t.jsonl") as url:
        for path in ("/", "/page.js", "/page.css", "/news", "/elsewhere"):
            _, _, headers = await get(url + path)
            assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(("host", "status"), [("box.lan:80", 200), ("evil.example", 403), ("", 403)])
async def test_a_name_that_is_not_the_viewer_s_is_refused(tmp_path, host, status):
    (tmp_path / "t.jsonl").touch()
    async with viewing(tmp_path / "t.jsonl", host="box.lan") as url:
        for path in ("/", "/news"):
            assert (await get(url + path, Host=host))[0] == status
