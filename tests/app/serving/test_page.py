"""The page at /: in a browser, and what it asks the server for."""

import io
import json
import os

import aiohttp
import pytest

from reground.app.serving.keys import Keys, new_key
from reground.demo import corpus_path
from tests.app.serving.served import Slow, served
from tests.browser import browser_page
from tests.data import ROOT
from tests.view.samples import HOSTILE
from tests.view.test_page import SHOWN, expect, texts

FILES = {
    "prague.md": "# Prague\n\nThe Vltava flows through\nPrague. It is <b>long</b>.\n",
    "sub/vienna.md": "Vienna lies on the Danube.\n",
    ".secret.md": "A hidden file.\n",
    "scan.xyz": "of no known kind",
}
ANSWER = f"The Vltava flows through Prague [1]. Penguins cannot fly. {HOSTILE}"

SOLVED = "John Harrison was a clockmaker who solved the problem of finding longitude at sea"
LEARNT = "He taught himself to make clocks, the first of them almost wholly of wood [1]."
LOST = "His clock H4 lost only about five seconds in 81 days"
STORY = [  # a draft, then for each of its steps a query and the text as it is revised so far
    f"{SOLVED}.\n\nHe was taught to make clocks by a master in London.\n\n{LOST}.",
    *("John Harrison longitude at sea", f"{SOLVED} [1]."),
    *("John Harrison make clocks taught", f"{SOLVED} [1].\n\n{LEARNT}"),
    *("H4 seconds in 81 days", f"{SOLVED} [1].\n\n{LEARNT}\n\n{LOST} [1]. A copy of it is shown in Vienna."),
]


@pytest.fixture
def docs(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside.md").write_text("Not for others.")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "outside.md")
    return tmp_path / "docs"


def serving(docs, **how):
    home = docs.parent / "home"
    return served(home, Slow(lambda messages, sampling: ANSWER), folder=docs, methods=["rag", "rat"], **how)


async def get(server, path, key="", body=None, **query):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
        async with session.request(method, f"{server.url}{path}", params=query, data=data) as response:
            return response.status, await response.json()


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
async def test_a_question_its_evidence_and_the_place_in_the_document(docs, width, dark):
    with serving(docs) as server:
        async with browser_page(width=width, dark=dark) as browsed:
            page = browsed.page

            async def fine():
                assert await browsed.unusable() == []
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")

            await page.goto(server.url)
            await page.locator("#question:focus").fill(f"Which river? {HOSTILE}")
            await page.select_option("select[name=model]", "rat/m@docs")
            await fine()
            await page.press("#question", "Enter")
            await page.wait_for_selector(".steps")
            assert await texts(page, ".answer .supported") == ["The Vltava flows through Prague [1]."]
            assert SHOWN.strip() in await page.text_content(".answer")
            assert await page.locator("main img, main script").count() == 0
            await fine()
            await page.click("figcaption a")
            await page.wait_for_selector("mark.here")
            assert await page.inner_text("mark.here") == "The Vltava flows through\nPrague."
            assert "<b>long</b>" in await page.inner_text(".document")
            await fine()
            await page.go_back()
            await page.get_by_role("link", name="Messages and reply").first.click()
            await page.wait_for_selector(".message")
            await page.get_by_role("link", name="Check").click()
            await page.fill("textarea", "The Vltava flows through Prague. Penguins cannot fly.")
            await page.keyboard.press("Control+Enter")
            await expect(page.locator(".checked")).to_have_count(2)
            await fine()
            await page.get_by_role("link", name="Documents").click()
            await expect(page.locator("details >> nth=0")).to_contain_text("scan.xyz")
            await fine()
            await page.get_by_role("link", name="Ask").click()
            await page.click(".row")
            await page.wait_for_selector(".steps")
            assert browsed.complaints == []


async def test_an_answer_is_shown_as_the_pictures_in_the_docs_have_it(tmp_path):
    """REGROUND_REWRITE_PICTURES=1 takes them again."""
    question = "How did John Harrison learn to make clocks, and how good was his best one?"
    with served(tmp_path, Slow(STORY), methods=["rat"], folder=corpus_path()) as server:
        for name, width, dark in (("wide", 1200, False), ("narrow", 360, False), ("dark", 1200, True)):
            async with browser_page(width=width, height=800, dark=dark) as browsed:
                page = browsed.page
                await page.goto(server.url)
                await page.fill("#question", question)
                await page.keyboard.press("Enter")
                await page.wait_for_selector(".steps")
                assert len(await texts(page, ".answer .supported")) == 3
                assert await texts(page, ".thoughts >> nth=0 >> ins") != []
                assert (await texts(page, "figcaption"))[0] == "[1] John Harrison john-harrison.md, line 3"
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                if os.environ.get("REGROUND_REWRITE_PICTURES"):
                    from PIL import Image

                    taken = Image.open(io.BytesIO(await page.screenshot()))
                    taken.quantize(256).save(ROOT / "docs" / "images" / f"page-{name}.png", optimize=True)


async def test_the_page_asks_for_a_key_and_keeps_it_in_its_tab(docs, tmp_path):
    key = new_key(tmp_path / "keys.jsonl", "alice")
    with serving(docs, keys=Keys(tmp_path / "keys.jsonl")) as server:
        async with browser_page() as browsed:
            page = browsed.page
            await page.goto(server.url)
            for given, wait in (("wrong", "text=wrong key"), (key, "#question")):
                await page.fill("input[type=password]", given)
                await page.keyboard.press("Enter")
                await page.wait_for_selector(wait)
            assert await page.evaluate("localStorage.length") == 0
            assert await page.evaluate("document.cookie") == ""


async def test_a_document_is_shown_if_it_is_one_of_the_documents(docs):
    with serving(docs) as server:
        for name in ("prague.md", "sub/vienna.md"):
            status, told = await get(server, "/v1/documents/text", file=name, quote="not in it")
            assert (status, told["parts"]) == (200, ["", "", FILES[name]])
        outside = ("", ".secret.md", "link.md", "../outside.md", "sub/../prague.md", "scan.xyz")
        for name in (*outside, str(docs / "prague.md")):
            assert (await get(server, "/v1/documents/text", file=name))[0] == 404, name
        _, told = await get(server, "/v1/documents")
        assert [each["files"] for each in told["data"]] == [["prague.md", "sub/vienna.md"]]
        assert "scan.xyz" in [each["path"] for each in told["data"][0]["unread"]]


@pytest.mark.parametrize("here", [True, False])
async def test_without_keys_others_see_no_earlier_questions(docs, here):
    with serving(docs, here=here) as server:
        body = {"model": "", "messages": [{"role": "user", "content": "Which river?"}]}
        assert (await get(server, "/v1/chat/completions", body=body))[0] == 200
        assert len((await get(server, "/v1/questions"))[1]["data"]) == here


async def test_a_key_sees_its_questions_and_its_documents_alone(docs, tmp_path):
    path = tmp_path / "keys.jsonl"
    alice, bob, carol = (new_key(path, name) for name in ("alice", "bob=others", "carol=others,more"))
    with serving(docs, keys=Keys(path), corpora=["docs", "others"]) as server:
        for key, model, question in ((alice, "rag/m@docs", "Which river?"), (bob, "rag/m@others", "And where?")):
            body = {"model": model, "messages": [{"role": "user", "content": question}]}
            assert (await get(server, "/v1/chat/completions", key, body))[0] == 200
        _, told = await get(server, "/v1/questions", alice)
        (run,) = [each["n"] for each in told["data"]]
        assert (await get(server, f"/v1/questions/{run}", alice))[1]["question"] == "Which river?"
        for other in (bob, carol):
            assert (await get(server, f"/v1/questions/{run}", other))[0] == 404
        assert len((await get(server, "/v1/questions", bob))[1]["data"]) == 1
        assert (await get(server, "/v1/questions", carol))[1]["data"] == []


READ = ("/", "/page.js", "/healthz", "/openapi.json", "/metrics", "/nothing", "/v1/models", "/v1/models/none")
READ += ("/v1/documents", "/v1/documents/text?file=prague.md", "/v1/questions", "/v1/questions/none")
POSTED = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Which river?"}]},
    "/v1/responses": {"input": "Which river?"},
    "/v1/check": {"text": "The Vltava flows through Prague."},
    "/retrieve": {"queries": ["river"]},
}


async def test_nothing_names_a_key_the_documents_of_others(docs, tmp_path):
    path, name = tmp_path / "keys.jsonl", "salaries"
    alice, bob = new_key(path, "alice"), new_key(path, "bob=others")
    with serving(docs, keys=Keys(path), corpora=[name, "others"]) as server:

        async def asked(where, key, body=None):
            method, headers = "GET" if body is None else "POST", {"Authorization": f"Bearer {key}"}
            async with aiohttp.request(method, f"{server.url}{where}", json=body, headers=headers) as reply:
                return reply.status, f"{await reply.text()} {reply.headers}"

        assert [name in (await asked(where, alice, POSTED[where]))[1] for where in POSTED] == [True, True, True, False]
        for where in READ:
            assert name not in (await asked(where, bob))[1], where
        for more in ({}, {"stream": True}, {"model": "rag/m@x"}, {"model": 1}, {"corpus": "x"}, {"where": "a = 1"}):
            for where, body in POSTED.items():
                assert name not in (await asked(where, bob, body | more))[1], (where, more)
        refused = [(where, body | {"model": f"rag/m@{name}"}) for where, body in POSTED.items() if where != "/retrieve"]
        refused += [(where, POSTED[where] | {"corpus": name}) for where in ("/v1/check", "/retrieve")]
        refused += [(f"/v1/models/rag/m@{name}", None), (f"/v1/documents/text?corpus={name}&file=prague.md", None)]
        assert {(await asked(where, bob, body))[0] for where, body in refused} == {404}
