"""Rerankers: the order they give, the names they have, and what goes wrong with them."""

import asyncio
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from reground.core.errors import AuthenticationError, ConfigurationError, RetrievalError
from reground.core.evidence import Pages, Passage
from reground.retrieval.judges import critic
from reground.retrieval.rerank import Linked, Reranked, Weights, rerank
from reground.retrieval.scripted import ScriptedRetriever
from tests.critics.test_trained import Reranking, base

__all__ = ["base"]

PASSAGES = [Passage(id=str(n), title=f"T{n}", text=f"wool {'word ' * n}") for n in range(6)]


class Fixed:
    """Scores by the passage's id; keeps what it was asked."""

    def __init__(self, scores: dict[str, float], name: str = "fixed") -> None:
        self.name, self.given, self.asked = name, scores, 0

    async def scores(self, query: str, passages: Sequence[Passage], /) -> Sequence[float]:
        self.asked += 1
        return [self.given.get(passage.id, 0.0) for passage in passages]


class Bare:
    """A retriever without pages."""

    def __init__(self) -> None:
        self.name, self.closed = "bare", 0

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        return PASSAGES[:k]

    async def aclose(self) -> None:
        self.closed += 1


def ids(passages: Sequence[Passage]) -> str:
    return "".join(passage.id for passage in passages)


async def test_the_first_passages_come_in_the_order_of_the_scores() -> None:
    inner, judge = ScriptedRetriever(PASSAGES), Fixed({"3": 5.0, "1": 4.0, "2": float("nan")})
    found = await Reranked(inner, judge, depth=4, by="score").retrieve("wool", k=6)
    assert ids(found) == "310245"  # NaN is last of four, and what was not judged stays behind
    assert [passage.score for passage in found[:3]] == [5.0, 4.0, 0.0]
    assert ids(await Reranked(inner, judge, depth=4, by="score").retrieve("wool", k=2)) == "31"
    assert ids(await Reranked(inner, judge, depth=2, by="score").retrieve("wool", k=2)) == "10"
    assert await Reranked(inner, judge, depth=4).retrieve("wool", k=0) == []
    assert ids(await Reranked(inner, judge, depth=4).retrieve(" ", k=2)) == "01"
    assert judge.asked == 3


async def test_both_orders_count_when_they_are_fused() -> None:
    judge = Fixed({"2": 3.0, "1": 2.0, "0": 1.0})
    found = await Reranked(ScriptedRetriever(PASSAGES), judge, depth=3).retrieve("wool", k=3)
    assert set(ids(found)) == {"0", "1", "2"}
    assert found[-1].id == "1"  # second in both, behind those that are first in one
    assert found[0].score == pytest.approx(1 / 61 + 1 / 63)


async def test_names_tell_everything_that_changes_the_order() -> None:
    inner = ScriptedRetriever(PASSAGES)
    rerankers = [Reranked(inner, Fixed({}), depth=4), Reranked(inner, Fixed({}), depth=5)]
    rerankers += [Reranked(inner, Fixed({}), depth=4, by="score"), Reranked(inner, Fixed({}, "other"), depth=4)]
    rerankers.append(Reranked(ScriptedRetriever(PASSAGES, name="else"), Fixed({}), depth=4))
    assert len({each.name for each in rerankers}) == 5
    with pytest.raises(ConfigurationError, match="at least one passage"):
        Reranked(inner, Fixed({}), depth=0)


async def test_pages_and_closing_are_those_of_the_retriever_below() -> None:
    with_pages = Reranked(ScriptedRetriever(PASSAGES), Fixed({}), depth=3)
    page = await with_pages.page("2")
    assert page is not None and page.id == "2"
    assert isinstance(with_pages, Pages)
    bare = Bare()
    assert not isinstance(Reranked(bare, Fixed({}), depth=3), Pages)
    await Reranked(bare, Fixed({}), depth=3).aclose()
    assert bare.closed == 1


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("crosencoder:x", "did you mean cross-encoder"),
        ("bm25", "Write links, critic:FOLDER"),
        ("critic", "needs what to rerank with: critic:FOLDER"),
        ("critic:absent", "no trained critic in absent"),
        ("cross-encoder:./absent", "there is no folder ./absent"),
        ("links:absent", "no reranker is called 'links:absent'; did you mean links?"),
        ("llama-server:ftp://host", "must look like llama-server:http"),
        ("llama-server:localhost:80", "must look like llama-server:http"),
        ("llama-server:http://me:secret@host", "holds a user, a password or a key"),
    ],
)
def test_what_is_no_reranker_is_refused_in_one_line(spec: str, said: str) -> None:
    if spec.startswith("cross-encoder"):
        pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
    with pytest.raises(ConfigurationError, match=said) as refused:
        rerank(Bare(), spec)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


# A server


async def test_a_server_gets_query_and_passages_as_they_are() -> None:
    async with Reranking() as server:
        found = rerank(ScriptedRetriever(PASSAGES), f"llama-server:{server.origin}/", depth=4, by="score")
        assert ids(await found.retrieve("wool", k=3)) == "321"
        assert server.asked[0]["query"] == "wool"
        assert server.asked[0]["documents"][0] == "T0\nwool"  # type: ignore[index]
        assert found.name == f"scripted > llama-server:{server.url}/rerank score 4"
        await found.aclose()  # type: ignore[attr-defined]


async def test_a_reply_without_scores_is_a_failed_retrieval() -> None:
    async with Reranking() as server:
        server.replies = [web.json_response({"results": {"index": 0}})]
        with pytest.raises(RetrievalError, match="could not be reranked"):
            await rerank(Bare(), f"llama-server:{server.url}").retrieve("wool", k=2)


async def test_a_refused_key_ends_the_run() -> None:
    async with Reranking() as server:
        server.replies = [web.Response(status=401)]
        with pytest.raises(AuthenticationError, match="RERANK_API_KEY"):
            await rerank(Bare(), f"llama-server:{server.url}").retrieve("wool", k=2)


# Models in this process


async def test_a_critic_folder_reranks(base: Path, tmp_path: Path) -> None:
    from tests.training.tiny_encoder import random_critic

    folder = random_critic(tmp_path / "out", base)
    search = rerank(Bare(), f"critic:{folder}", by="score")
    found = await search.retrieve("why wool?", k=6)
    assert sorted(ids(found)) == list("012345")
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    assert "trained:encoder" in search.name
    assert str(folder) not in search.name
    shutil.copytree(folder, tmp_path / "copy")
    for weights in (tmp_path / "copy").rglob("model.safetensors"):
        weights.unlink()
    with pytest.raises(ConfigurationError, match="could not be loaded"):
        await rerank(Bare(), f"critic:{tmp_path / 'copy'}").retrieve("why wool?", k=6)


async def test_a_critic_reads_passages_as_long_as_in_its_training(base: Path, tmp_path: Path) -> None:
    from tests.training.tiny_encoder import random_critic

    folder = random_critic(tmp_path / "out", base, passage_tokens=4)
    judge = critic(str(folder))
    long, cut = (Passage(id=text, title="T", text=text) for text in ("a word or two of wool " * 9, "a word or two ..."))
    sand = Passage(id="sand", title="T", text="sand")
    one, other, another = await judge.scores("why?", [long, cut, sand])
    assert abs(one - other) < 1e-6 < abs(one - another)


async def test_a_window_bounds_what_a_cross_encoder_reads(base: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(base), num_labels=1).save_pretrained(str(tmp_path / "judge"))
    place = f"cross-encoder:{tmp_path / 'judge'}"
    near, far = ("wool " * 20 + end for end in ("sheep", "goat"))
    for tokens, same in ((16, True), (48, False)):
        search = rerank(
            ScriptedRetriever([Passage(id="a", text=near), Passage(id="b", text=far)]), place, tokens=tokens, by="score"
        )
        assert f" {tokens} score 20" in search.name
        one, other = await search.retrieve("wool", k=2)
        assert (abs(one.score - other.score) < 1e-6) == same


async def test_a_cross_encoder_scores_calls_together_and_is_named_by_its_weights(base: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = tmp_path / "judge"
    CrossEncoder(str(base), num_labels=1).save_pretrained(str(folder))
    search = rerank(Bare(), f"cross-encoder:{folder}", by="score")
    found = await asyncio.gather(*(search.retrieve(query, k=6) for query in ("why wool?", "what is a word?")))
    alone = [await search.retrieve(query, k=6) for query in ("why wool?", "what is a word?")]
    assert [ids(each) for each in found] == [ids(each) for each in alone]
    model = CrossEncoder(str(folder))
    read = [("why wool?", f"{passage.title}\n{passage.text}".strip()) for passage in PASSAGES]
    import torch

    wanted = model.predict(read, activation_fn=torch.nn.Identity(), show_progress_bar=False).tolist()
    assert alone[0][0].score == pytest.approx(max(wanted), abs=0.02)  # bfloat16 where there is one
    assert str(tmp_path) not in search.name
    other = tmp_path / "other" / "judge"
    shutil.copytree(folder, other)
    (other / "model.safetensors").write_bytes(b"damaged")
    damaged = rerank(Bare(), f"cross-encoder:{other}", by="score")
    assert damaged.name != search.name
    # not a failed retrieval, which a method may note and go on without passages
    with pytest.raises(ConfigurationError, match="could not be loaded"):
        await damaged.retrieve("wool", k=2)


FILM = Passage(
    id="film", title="The Long Night (film)", text="The Long Night is a drama. Ada Moss directed it in Rome."
)
ADA = Passage(id="ada", title="Ada Moss", text="Ada Moss was born at Kirk on 3 May 1901.")
ROME = Passage(id="rome", title="Rome", text="Rome is the seat of a government.")
SEA = Passage(id="sea", title="AB", text="The night is long at sea. Rome is far.")


@pytest.mark.parametrize(
    ("feature", "values"),
    [
        # words in common: film 4 of 5 (directed, the, long, night), sea 3 (the, night, long), rome 1 (the), ada none
        ("score", {"film": 1.0, "sea": 0.75, "rome": 0.25, "ada": 0.0}),
        ("rank", {"film": 1.0, "sea": 10 / 11, "rome": 10 / 12, "ada": 10 / 13}),
        ("named", {"film": 1.0, "sea": 0.0, "rome": 0.0, "ada": 0.0}),  # a title of two letters says nothing
        # found by searching with the text of the film; Rome stands in two other passages, Ada Moss in one
        ("linked", {"film": 0.0, "sea": 0.0, "rome": 1 / (1 + math.log(2)), "ada": 1.0}),
    ],
)
async def test_features_are_those_worked_out_by_hand(feature: str, values: dict[str, float]) -> None:
    alone = Weights(**{name: float(name == feature) for name in Weights.model_fields})
    search = Linked(ScriptedRetriever([FILM, SEA, ROME, ADA]), alone, depth=2)
    found = await search.retrieve("Who directed the long night?", k=4)
    assert {passage.id: passage.score for passage in found} == pytest.approx(values)


@pytest.mark.parametrize("numbered", [False, True])
async def test_a_document_that_another_one_names_comes_with_it(numbered: bool) -> None:
    """Of a set of data, documents are often called by numbers."""
    ids = {each.id: str(n) if numbered else each.id for n, each in enumerate([SEA, ROME, FILM, ADA])}
    named = [each.model_copy(update={"id": ids[each.id]}) for each in (SEA, ROME, FILM, ADA)]
    search = rerank(ScriptedRetriever(named), "links", depth=3)
    found = await search.retrieve("Where was the director of The Long Night born?", k=4)
    assert {passage.id for passage in found[:2]} == {ids["film"], ids["ada"]}
    assert isinstance(search, Pages)
    assert [passage.score for passage in found] == sorted((p.score for p in found), reverse=True)
    assert (await search.retrieve("", k=2))[0].score == 0.0


async def test_passages_of_a_document_are_not_linked_to_its_own_title() -> None:
    log = [Passage(id=f"log.md#{n}", title="Change log", text=f"Part {n}: tar, oar, sail.") for n in range(1, 9)]
    log[0] = log[0].model_copy(update={"text": "# Change log\n\nWhich part of a ship is the keel?"})
    answer = Passage(id="log.md#9", title="Change log", text="The keel of the ship is of oak, the best wood.")
    guide = Passage(id="guide.md", title="Guide", text="The Change log tells which keel is of oak.")
    search = rerank(ScriptedRetriever([*log, answer, guide]), "links", depth=10)
    found = await search.retrieve("Is the keel of the ship of oak wood?", k=10)
    assert found[0].id == "log.md#9"
    alone = Linked(ScriptedRetriever([*log, answer, guide]), Weights(score=0, rank=0, named=0, linked=1), depth=10)
    linked = {passage.id: passage.score for passage in await alone.retrieve("keel of oak", k=10)}
    assert linked["log.md#9"] == linked["log.md#2"] > 0, "the guide names their document"
    assert linked["guide.md"] == 0


@pytest.mark.parametrize("title", ["Sails", "sails", "4.2"])
@pytest.mark.parametrize(
    "query", ["Which sails are of hemp cloth in 4.2?", "Which cloth is hoisted of hemp, not linen?"]
)
async def test_pieces_of_a_long_document_are_not_raised_by_its_title(title: str, query: str) -> None:
    best = Passage(id="cloth.md", title="Cloth", text="Of hemp is the cloth of which sails are made, not linen. Sails!")
    pieces = [Passage(id=f"s.md#{n}", title=title, text=f"Way {n} of which it is hoisted.") for n in range(1, 7)]
    found = await rerank(ScriptedRetriever([*pieces, best]), "links").retrieve(query, k=7)
    assert found[0].id == "cloth.md"


async def test_documents_come_behind_the_one_that_names_them_in_the_order_of_their_links() -> None:
    lark = Passage(id="lark", title="Lark", text="The Lark was built by Ivo Brandt at Hull, not at Goole.")
    ivo = Passage(id="ivo", title="Ivo Brandt", text="He was born at Hull.")
    hull = Passage(id="hull", title="Hull", text="A port.")
    search = Linked(ScriptedRetriever([hull, lark, ivo]), Weights(linked=9), depth=3)
    found = await search.retrieve("Who built the Lark?", k=3)
    assert [passage.id for passage in found] == ["lark", "ivo", "hull"]
    assert found[0].score > found[1].score > found[2].score


@pytest.mark.parametrize(("text", "named"), [("A league of clubs.", 0.5), ("Its prize is of silver.", 1)])
async def test_a_title_in_the_question_counts_half_where_its_passage_adds_no_word(text: str, named: float) -> None:
    best = Passage(id="best", title="Northern League final", text="The final of the Northern League was in May 1931.")
    search = Linked(
        ScriptedRetriever([best, Passage(id="league", title="Northern League", text=text)]),
        Weights(score=0, rank=0, named=1, linked=0),
        depth=2,
    )
    found = await search.retrieve("When was the Northern League final for the silver prize?", k=2)
    assert {passage.id: passage.score for passage in found} == {"best": 1.0, "league": named}


@pytest.mark.parametrize(("title", "said"), [("rope", "rope"), ("Rope", "the rope"), ("Ropes", "ROPES")])
async def test_a_word_that_is_the_title_of_another_document_is_no_link(title: str, said: str) -> None:
    lead = Passage(id="mast", title="Mast", text=f"A mast is held by {said} and by wedges of ash.")
    other = Passage(id="other", title=title, text="It is twisted of hemp.")
    search = Linked(ScriptedRetriever([lead, other]), Weights(score=0, rank=0, named=0, linked=1), depth=2)
    assert not any(passage.score for passage in await search.retrieve("What is a mast held by?", k=2))


async def test_a_title_in_a_script_without_capitals_is_a_link() -> None:
    lead = Passage(id="film", title="长夜", text="长夜 是 莫雪兰 导演 的 电影")
    director = Passage(id="director", title="莫雪兰", text="生于 1901 年")
    search = Linked(ScriptedRetriever([lead, director]), Weights(score=0, rank=0, named=0, linked=1), depth=2)
    assert (await search.retrieve("长夜 导演", k=2))[0].id == "director"


async def test_copies_that_two_searches_find_come_once() -> None:
    copies = [Passage(id=f"c{n}", title=f"Title {n}", text="Wool of sheep.") for n in range(3)]
    found = await rerank(ScriptedRetriever([*copies, SEA]), "links", depth=1).retrieve("sheep wool sea", k=4)
    assert len(found) == 2


async def test_more_passages_than_are_reranked_follow_in_their_order() -> None:
    many = [Passage(id=f"p{n}", title=f"Title {n}", text=f"wool wool wool {n}") for n in range(50)]
    found = await rerank(ScriptedRetriever(many), "links", depth=5).retrieve("wool", k=40)
    assert len({passage.id for passage in found}) == len(found) == 40


async def test_a_long_document_is_followed_by_its_beginning() -> None:
    inner = ScriptedRetriever([Passage(id="a", title="Long one", text="wool " * 10_000)])
    await rerank(inner, "links").retrieve("wool", k=1)
    assert inner.queries[0] == "wool"
    assert len(inner.queries[1]) == 2000
