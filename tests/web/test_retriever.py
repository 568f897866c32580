import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reground.core.errors import ConfigurationError
from reground.core.evidence import Pages, Retriever, Skipped
from reground.core.journal import MemoryJournal
from reground.core.run import Run
from reground.core.trajectory import RetrieveStep
from reground.methods.shared.evidence import Evidence
from reground.web.results import WebResult
from reground.web.retriever import Blocklist, Mode, WebRetriever
from tests.web.little_web import ListedEngine, LittleWeb, Names, Site, page, redirect

Over = Callable[..., WebRetriever]
FILLER = "Nothing of interest stands in this paragraph, which goes on for a while about other things entirely. " * 8
PAGES = {
    "/bridge": page("Charles Bridge", FILLER, "The bridge over the Vltava was begun in 1357 by Charles IV.", FILLER),
    "/tower": page("Tower", "The tower was finished in 1889."),
    "/empty": Site(b"<html><body></body></html>"),
    "/gone": Site(b"", status=410),
}


@pytest.fixture
async def web() -> AsyncIterator[LittleWeb]:
    async with LittleWeb(PAGES) as web:
        yield web


@pytest.fixture
async def over(web: LittleWeb) -> AsyncIterator[Over]:
    """Makes a retriever whose engine finds these pages, each with a snippet."""
    made: list[WebRetriever] = []

    def make(*paths: str, mode: Mode = "pages", **how: Any) -> WebRetriever:
        results = [WebResult(title=path[1:], url=web.url + path, snippet=f"about the {path[1:]}") for path in paths]
        made.append(WebRetriever(engine=ListedEngine(results), fetcher=web.fetcher(), mode=mode, **how))
        return made[-1]

    yield make
    for retriever in made:
        await retriever.aclose()


async def test_it_is_a_retriever_that_opens_pages() -> None:
    retriever = WebRetriever(engine=ListedEngine([]))
    assert isinstance(retriever, Retriever) and isinstance(retriever, Pages)
    assert retriever.name == "web:listed pages 200 words"
    with pytest.raises(ConfigurationError, match="snippets, pages or first"):
        WebRetriever(engine=ListedEngine([]), mode="all")  # type: ignore[arg-type]


async def test_snippets_fetch_nothing(web: LittleWeb, over: Over) -> None:
    retriever = over("/bridge", "/tower", mode="snippets")
    found = await retriever.retrieve("anything", k=1)
    assert [(p.page_id, p.text, p.title, p.url, p.fetched) for p in found] == [
        (f"{web.url}/bridge", "about the bridge", "bridge", f"{web.url}/bridge", None)
    ]
    assert web.asked == []


async def test_another_query_reads_another_part_of_the_same_page(web: LittleWeb, over: Over) -> None:
    retriever, evidence = over("/bridge", words=40), Evidence()
    for query in ("When was the bridge over the Vltava begun?", "closest statues saints", "When was it begun?"):
        evidence.add(await retriever.retrieve(query, k=1))
    parts = {passage.text for passage in evidence.passages}
    first = evidence.passages[0]
    assert "begun in 1357" in first.text and len(first.text.split()) <= 40, "the closest part of the page"
    assert first.title == "Charles Bridge" and first.fetched is not None
    assert len(parts) == len(evidence.passages) > 1, "each part once"
    assert {passage.page_id for passage in evidence.passages} == {f"{web.url}/bridge"}


async def test_a_page_that_cannot_be_read_leaves_its_snippet_and_says_why(web: LittleWeb, over: Over) -> None:
    web.pages["/robots.txt"] = Site(b"User-agent: *\nDisallow: /tower", headers={"Content-Type": "text/plain"})
    retriever = over("/gone", "/tower", "/empty", "/bridge")
    found = await retriever.retrieve("x", k=4)
    assert [p.text for p in found[:3]] == ["about the gone", "about the tower", "about the empty"]
    assert found.skipped == (
        Skipped(skipped=f"{web.url}/gone", why="its server answered 410"),
        Skipped(skipped=f"{web.url}/tower", why="its robots.txt forbids it"),
        Skipped(skipped=f"{web.url}/empty", why="it holds no text"),
    )
    web.pages["/gone"] = PAGES["/bridge"]  # a page that failed is fetched again
    found = await retriever.retrieve("When was the bridge begun?", k=1)
    assert "1357" in found[0].text and not found.skipped


async def test_the_first_page_that_can_be_read_in_long_pieces(web: LittleWeb, over: Over) -> None:
    retriever = over("/gone", "/bridge", "/tower", mode="first", piece_tokens=200)
    found = await retriever.retrieve("x", k=2)
    assert [p.id for p in found] == [f"{web.url}/bridge#1", f"{web.url}/bridge#2"]
    assert [each.why for each in found.skipped] == ["its server answered 410"]
    assert f"{web.url}/tower" not in [web.url + path for path in web.asked]
    whole = await retriever.page(found[0].id)
    assert whole is not None and whole.id == f"{web.url}/bridge" and "1357" in whole.text


async def test_a_page_is_fetched_once(web: LittleWeb, over: Over) -> None:
    retriever = over("/bridge", "/tower")
    await asyncio.gather(*(retriever.retrieve(f"about {n}", k=2) for n in range(5)))
    await retriever.page(f"{web.url}/bridge")
    assert sorted(web.asked) == ["/bridge", "/robots.txt", "/tower"]


async def test_a_cancelled_search_leaves_the_page_to_the_others(web: LittleWeb, over: Over) -> None:
    web.pages["/a"] = Site(PAGES["/tower"].body, seconds=0.3)
    retriever = over("/a")
    first = asyncio.create_task(retriever.retrieve("x", k=1))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(retriever.retrieve("y", k=1))
    await asyncio.sleep(0.05)
    first.cancel()
    assert "1889" in (await second)[0].text


async def test_text_that_the_engine_sends_along_is_read_instead(web: LittleWeb, over: Over) -> None:
    retriever = over()
    retriever.engine = ListedEngine([WebResult(title="t", url=f"{web.url}/bridge", content="sent along " * 300)])
    (found,) = await retriever.retrieve("x", k=1)
    assert found.text.startswith("sent along")
    assert web.asked == []


async def test_what_a_page_hides_is_not_read(web: LittleWeb, over: Over) -> None:
    hidden = (
        '<p style="display: none">IGNORE 1</p><p hidden>IGNORE 2</p><div style="font-size:0px">IGNORE 3</div>'
        '<span style="position:absolute; left:-9999px">IGNORE 4</span><!-- IGNORE 5 --><script>IGNORE 6</script>'
        "<template>IGNORE 7</template><noscript>IGNORE 8</noscript><div style='visibility:hidden'><p>IGNORE 9</p></div>"
    )
    seen = "<p>It was finished <span hidden>IGNORE</span>in 1889.</p><p style='opacity:0.9'>Seen.</p>"
    text = f"<html><body><h1>Tower</h1>{hidden}{seen}</body></html>"
    web.pages["/a"] = Site(text.encode())
    retriever = over("/a")
    (found,) = await retriever.retrieve("tower", k=1)
    assert "IGNORE" not in found.text
    assert "1889" in found.text and "Seen." in found.text


async def test_a_measurement_finds_no_page_that_holds_its_questions(web: LittleWeb, over: Over) -> None:
    question = "In which year was the bridge over the Vltava in Prague begun by Charles the Fourth?"
    blocked = Blocklist.of([question], frozenset(("example.org",)))
    web.pages["/copy"] = page("Answers", f"Question: {question} Answer: 1357.")
    retriever = over("/copy", "/bridge", blocked=blocked)
    other = WebResult(title="t", url="https://data.example.org/hotpot", snippet="bridge")
    told = WebResult(title="t", url="https://a.example/x", snippet=question)
    retriever.engine = ListedEngine([other, told, *retriever.engine.results])  # type: ignore[attr-defined]
    found = await retriever.retrieve("x", k=3)
    assert [p.url for p in found] == [f"{web.url}/bridge"]
    assert {each.skipped: each.why for each in found.skipped} == {
        "https://data.example.org/hotpot": "its host is on the list of blocked ones",
        "https://a.example/x": "it holds a question of the benchmark",
        f"{web.url}/copy": "it holds a question of the benchmark",
    }
    assert await retriever.page(f"{web.url}/copy") is None
    assert await retriever.page("https://example.org/") is None


@pytest.mark.parametrize("mode", ["pages", "first"])
@pytest.mark.parametrize("host", ["data.example.org", "example.org."])
async def test_a_measurement_follows_no_redirect_to_a_blocked_host(
    web: LittleWeb, over: Over, mode: Mode, host: str
) -> None:
    web.pages["/moved"] = redirect(f"http://{host}:{web.port}/tower")
    retriever = over("/moved", "/gone", mode=mode, blocked=Blocklist(frozenset(("example.org",))))
    retriever.fetcher = web.fetcher(resolver=Names("127.0.0.1"))
    found = await retriever.retrieve("When was it finished?", k=2)
    assert [p.text for p in found] == ["about the gone"]
    assert found.skipped == (
        Skipped(skipped=f"{web.url}/moved", why="its host is on the list of blocked ones"),
        Skipped(skipped=f"{web.url}/gone", why="its server answered 410"),
    )
    assert await retriever.page(f"{web.url}/moved") is None
    assert "/tower" not in web.asked


@pytest.mark.parametrize(
    ("url", "blocked"),
    [
        ("https://huggingface.co/datasets/x", True), ("https://huggingface.co./datasets/x", True),
        ("https://HUGGINGFACE.co.:443/datasets/x", True), ("https://datasets.huggingface.co./x", True),
        ("https://nothuggingface.co./x", False), ("https://huggingface.co.example/x", False),
    ],
)  # fmt: skip
def test_a_blocked_host_in_all_its_spellings(url: str, blocked: bool) -> None:
    assert (Blocklist.of([]).why_not(url) is not None) == blocked


async def test_what_was_skipped_is_journaled_and_replayed(web: LittleWeb, over: Over) -> None:
    steps, journal = [], MemoryJournal()
    for _ in range(2):
        run, retriever = Run(journal=journal), over("/gone", "/bridge")
        found = await run.retrieve(retriever, "about", k=2)
        (step,) = run.steps
        assert isinstance(step, RetrieveStep)
        steps.append(step)
        assert [p.url for p in found] == [f"{web.url}/gone", f"{web.url}/bridge"]
        web.pages.clear()
    gone = Skipped(skipped=f"{web.url}/gone", why="its server answered 410")
    assert steps[0].skipped == steps[1].skipped == (gone,)
    assert steps[1].replayed and steps[1].passages == steps[0].passages
    assert steps[0].passages[1].fetched is not None
