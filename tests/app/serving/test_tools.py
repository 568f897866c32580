"""The tools: every result is bounded, and nothing that a bound cuts is lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from reground.app.serving.engine import UnknownName
from reground.app.serving.tools import LEAST, AskInput, CheckInput, FetchInput, RetrieveInput, Tools, TooSmall, size
from reground.core.errors import RegroundError
from reground.core.evidence import Passage
from reground.core.untrusted import neutralise
from reground.models.scripted import ScriptedModel
from reground.retrieval.filters import FilterError
from reground.retrieval.index import build_index, open_index
from reground.retrieval.rerank import rerank
from reground.retrieval.scripted import ScriptedRetriever
from tests.app.serving.served import engine_of
from tests.retrieval.corpora import write

HOSTILE = ['"' * 9000, "\x00\x1f" * 3000, "橋は\n" * 4000, "word " * 5000, "<|im_end|>" * 900, "x" * 20_000, ""]


class Plain:
    """A retriever without pages."""

    name = "plain"

    def __init__(self, passages):
        self._passages = list(passages)

    async def retrieve(self, query, /, *, k):
        return self._passages[:k]


def tools(home, passages=(), reply="yes [1]", tokens=2000, **corpora):
    corpora = corpora or {"docs": ScriptedRetriever(passages)}
    model = ScriptedModel(lambda messages, sampling: reply)
    return Tools(engine_of(home, model, ["rag"], corpora), tokens)


def passages_of(texts):
    return [Passage(id=f"d{n}#1", title=f"D{n}", text=text, url=f"d{n}.md") for n, text in enumerate(texts)]


async def gone_through(served, query, k, tokens):
    """The ids of all passages, by the cursors. Raises TooSmall."""
    seen: list[str] = []
    cursor = None
    while True:
        got = await served.retrieve(RetrieveInput(query=query, k=k, cursor=cursor, max_tokens=tokens))
        assert size(got) <= tokens
        assert len(got.passages) <= k
        seen += [hit.id for hit in got.passages]
        if (cursor := got.next_cursor) is None:
            assert len(seen) == len(set(seen))
            return seen


@settings(max_examples=25)
@given(
    texts=st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=4000)), max_size=30),
    title=st.sampled_from(["", "t" * 5000, '"' * 400, "\x01" * 400]),
    id_=st.sampled_from(["d", "i" * 3000, "\x02" * 100]),
    tokens=st.integers(LEAST, 4000),
    k=st.integers(1, 20),
)
async def test_a_search_is_within_its_bound_and_its_cursors_reach_every_passage(
    tmp_path_factory, texts, title, id_, tokens, k
):
    found = [Passage(id=f"{id_}{n}", title=title, text=text, url=title) for n, text in enumerate(texts)]
    served = tools(tmp_path_factory.mktemp("home"), found)
    try:
        seen = await gone_through(served, "word", k, tokens)
    except TooSmall:
        assert len(title) > 100 or "\x02" in id_  # six bytes a character, and a bound of 300
        return
    assert len(seen) == len(texts)
    for hit in seen:
        assert (await served.fetch(FetchInput(id=hit))).characters >= 0


async def test_a_search_that_orders_anew_where_it_looks_deeper_loses_and_repeats_nothing(tmp_path):
    """`links` looks at 30 passages; one beyond them that they lead to has a better place once it is found itself."""

    class Leading(Plain):
        async def retrieve(self, query, /, *, k):
            return (self._passages if query == "where?" else self._passages[35:55])[:k]

    texts = [f"text {n}" + (" on Fortieth" if n == 0 or 2 <= n < 12 else "") for n in range(60)]
    found = [
        Passage(id=f"p{n}", title="Fortieth" if n == 40 else "", text=text, score=100.0 - n)
        for n, text in enumerate(texts)
    ]
    served = tools(tmp_path, docs=rerank(Leading(found), "links"))
    assert len(await gone_through(served, "where?", 20, 20_000)) == 60


@settings(max_examples=40)
@given(text=st.one_of(st.sampled_from(HOSTILE), st.text(max_size=9000)), tokens=st.integers(LEAST, 3000))
async def test_the_parts_of_a_text_are_within_their_bound_and_together_the_text(tmp_path_factory, text, tokens):
    served = tools(tmp_path_factory.mktemp("home"), passages_of([text]))
    parts, offset = [], 0
    while True:
        got = await served.fetch(FetchInput(id="d0#1", offset=offset, max_tokens=tokens))
        assert size(got) <= tokens
        assert got.offset == offset
        parts.append(got.text)
        if got.next_offset is None:
            break
        assert got.next_offset > offset
        offset = got.next_offset
    assert "".join(parts) == neutralise(passages_of([text])[0].text)


@pytest.mark.parametrize("reply", [*(each for each in HOSTILE if each), "Yes, it is so [1]. " * 2000])
@pytest.mark.parametrize("tokens", [LEAST, 800, 2000])
async def test_an_answer_is_within_its_bound_and_fetched_whole(tmp_path, reply, tokens):
    served = tools(tmp_path, passages_of(["Yes, it is so. It is so.", *HOSTILE]), reply, tokens)
    got = await served.ask(AskInput(question="Is it so?"))
    assert size(got) <= tokens
    if got.next_offset is not None:
        rest = await served.fetch(FetchInput(id=got.id, offset=got.next_offset, max_tokens=20_000))
        assert rest.text
        assert rest.offset == len(got.answer)


async def test_an_answer_names_its_sources_and_each_can_be_opened(tmp_path):
    text = "The bridge was finished in 1402. It has sixteen arches. " + "Other words follow here. " * 300
    served = tools(tmp_path, passages_of([text, "Nothing."]), "The bridge was finished in 1402 [1].")
    got = await served.ask(AskInput(question="When was the bridge finished?"))
    assert (got.answered, got.ungrounded, got.offer) == (True, None, "rag/m@docs")
    assert [(each.id, each.marker, each.title, each.url) for each in got.citations] == [("d0#1", 1, "D0", "d0.md")]
    assert got.citations[0].quote == "The bridge was finished in 1402."
    assert got.usage.calls == 1
    opened = await served.fetch(FetchInput(id=got.citations[0].id, max_tokens=20_000))
    assert opened.text == text


async def test_what_the_documents_do_not_give_is_said(tmp_path):
    got = await tools(tmp_path, passages_of(["Frogs."]), "Not in these passages.").ask(AskInput(question="Who?"))
    assert not got.answered
    assert got.ungrounded


async def test_a_snippet_is_what_is_closest_to_the_query(tmp_path):
    far = "Nothing of interest stands in this sentence at all. " * 200
    served = tools(tmp_path, passages_of([f"{far} The lighthouse was lit in 1899. {far}"]))
    got = await served.retrieve(RetrieveInput(query="lighthouse lit", max_tokens=LEAST))
    assert "The lighthouse was lit in 1899." in got.passages[0].snippet
    assert not got.passages[0].whole
    short = await tools(tmp_path, passages_of(["A lighthouse."])).retrieve(RetrieveInput(query="lighthouse"))
    assert short.passages[0].whole


async def test_a_document_is_opened_whole_and_a_passage_alone(tmp_path):
    pieces = [Passage(id=f"d#{n}", text=f"piece {n}") for n in (1, 2)]
    served = tools(tmp_path, pieces)
    await served.retrieve(RetrieveInput(query="piece"))
    assert (await served.fetch(FetchInput(id="d#1"))).text == "piece 1"
    assert (await served.fetch(FetchInput(id="d#1", document=True))).text == "piece 1\npiece 2"
    assert (await served.fetch(FetchInput(id="d"))).text == "piece 1\npiece 2"


async def test_several_documents_are_told_apart(tmp_path):
    one, two = (ScriptedRetriever([Passage(id="a", text=text)]) for text in ("of one", "of two"))
    served = tools(tmp_path, one=one, two=two)
    assert (await served.retrieve(RetrieveInput(query="of", corpus="two"))).corpus == "two"
    assert (await served.fetch(FetchInput(id="a"))).text == "of two"  # the one that was found last
    assert (await served.fetch(FetchInput(id="a", corpus="one"))).text == "of one"
    with pytest.raises(UnknownName, match="three"):
        await served.retrieve(RetrieveInput(query="of", corpus="three"))


async def test_an_address_that_no_search_gave_is_not_opened(tmp_path):
    """A text can name an address with the reader's secrets in it: what a model is told to fetch is not fetched."""
    served = tools(tmp_path, [Passage(id="https://x.test/?q=secret", text="page", url="https://x.test/?q=secret")])
    with pytest.raises(RegroundError, match="nothing has the id"):
        await served.fetch(FetchInput(id="https://x.test/?q=secret"))
    await served.retrieve(RetrieveInput(query="page"))
    assert (await served.fetch(FetchInput(id="https://x.test/?q=secret", document=True))).text == "page"


async def test_wrong_ids_and_offsets_are_refused_in_a_line(tmp_path):
    plain = tools(tmp_path, own=Plain(passages_of(["a text"])))
    found = (await plain.retrieve(RetrieveInput(query="text"))).passages[0].id
    for given_, why in (
        (FetchInput(id="nowhere"), "nothing has the id"),
        (FetchInput(id=found, offset=99), "has 6 characters"),
        (FetchInput(id=found, document=True), "cannot be opened whole"),
    ):
        with pytest.raises(RegroundError, match=why):
            await plain.fetch(given_)
    for kind, given_ in (
        (AskInput, {"question": "a", "budget_tokens": 10**400}),
        (FetchInput, {"id": "a", "offset": 10**400}),
    ):
        with pytest.raises(ValidationError, match="less than or equal"):
            kind(**given_)


@pytest.mark.parametrize(
    "sentence", ["The mill {} stands at the river.", "Mill <|im_end|> \x01 {} is '\"' old.", "橋{}は川にある。"]
)
async def test_a_check_is_within_its_bound_and_shows_first_what_fell(tmp_path, sentence):
    found = passages_of([" ".join(sentence.format(n) for n in range(400, 500))])
    served = tools(tmp_path, found)
    text = " ".join([*(sentence.format(n) for n in range(400, 450)), "Penguins cannot fly at all."])
    for tokens in (LEAST, 900):
        result = await served.check(CheckInput(text=text, max_tokens=tokens))
        assert size(result) <= tokens
        assert result.sentences_left_out and not result.supported
        assert result.sentences[0].verdict != "supported"
    assert "supported" in result.summary and "<|im_end|>" not in str(result)


async def test_a_filter_chooses_among_the_documents_of_a_call(tmp_path):
    notes = write(tmp_path / "notes", {"a.md": "---\ntag: x\n---\nOwls hoot at night.", "b.md": "Owls sleep by day."})
    await asyncio.to_thread(build_index, notes, tmp_path / "index")
    over = tools(tmp_path, docs=rerank(open_index(tmp_path / "index"), "links"), reply="Owls hoot at night [1].")
    asked = RetrieveInput(query="owls", where="tag:x")
    assert [hit.id for hit in (await over.retrieve(asked)).passages] == ["a.md"]
    assert len((await over.retrieve(RetrieveInput(query="owls"))).passages) == 2
    assert [each.id for each in (await over.ask(AskInput(question="When do owls hoot?", where="tag:x"))).citations] == [
        "a.md"
    ]
    assert not (await over.ask(AskInput(question="When do owls hoot?", where="path:b.md"))).answered
    assert not (await over.check(CheckInput(text="Owls hoot at night.", where="path:b.md"))).supported
    with pytest.raises(FilterError, match="no document has a field"):
        await over.ask(AskInput(question="When do owls hoot?", where="price>3"))
