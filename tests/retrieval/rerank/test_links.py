"""Following titles: features by hand, a second document that no word of the question names, fitted weights."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from reground.core.errors import DataError
from reground.core.evidence import Pages, Passage
from reground.evaluation.tasks import load_task
from reground.retrieval.index import build_index, open_index
from reground.retrieval.rerank import rerank
from reground.retrieval.rerank.links import Linked, Weights, read_weights
from reground.retrieval.retriever import IndexRetriever
from reground.retrieval.scripted import ScriptedRetriever
from reground.training.listwise import newton
from reground.training.retriever.data import Question
from reground.training.retriever.evaluate import measured, rank
from reground.training.retriever.questions import questions_of
from reground.training.retriever.rank import candidate_lists, fit_weights
from tests.data import need_data
from tests.retrieval.corpora import jsonl, write

FILM = Passage(
    id="film", title="The Long Night (film)", text="The Long Night is a drama. Ada Moss directed it in Rome."
)
ADA = Passage(id="ada", title="Ada Moss", text="Ada Moss was born at Kirk on 3 May 1901.")
ROME = Passage(id="rome", title="Rome", text="Rome is the seat of a government.")
SEA = Passage(id="sea", title="AB", text="The night is long at sea. Rome is far.")


async def test_features_are_those_worked_out_by_hand() -> None:
    found = ScriptedRetriever([FILM, SEA, ROME, ADA])
    candidates = await Linked(found, Weights(), depth=2).candidates("Who directed the long night?")
    features = {each.passage.id: each.features for each in candidates}
    # words in common: film 4 of 5 (directed, the, long, night), sea 3 (the, night, long)
    assert features["film"] == (1.0, 1.0, 1.0, pytest.approx(0))
    assert features["sea"] == (0.75, 10 / 11, 0.0, 0.0)  # a title of two letters says nothing
    # found by searching with the text of the film; Rome stands in two other passages, Ada Moss in one
    assert features["rome"] == (0.0, 0.0, 0.0, pytest.approx(1 / (1 + math.log(2))))
    assert features["ada"] == (0.0, 0.0, 0.0, 1.0)


async def test_a_document_that_another_one_names_comes_with_it() -> None:
    search = rerank(ScriptedRetriever([SEA, ROME, FILM, ADA]), "links", depth=3)
    found = await search.retrieve("Where was the director of The Long Night born?", k=4)
    assert {passage.id for passage in found[:2]} == {"film", "ada"}
    assert isinstance(search, Pages)
    assert [passage.score for passage in found] == sorted((p.score for p in found), reverse=True)
    assert (await search.retrieve("", k=2))[0].score == 0.0


async def test_more_passages_than_are_reranked_follow_in_their_order() -> None:
    many = [Passage(id=f"p{n}", title=f"Title {n}", text="wool " * 3) for n in range(50)]
    found = await rerank(ScriptedRetriever(many), "links", depth=5).retrieve("wool", k=40)
    assert len({passage.id for passage in found}) == len(found) == 40


async def test_a_long_document_is_followed_by_its_beginning() -> None:
    inner = ScriptedRetriever([Passage(id="a", title="Long one", text="wool " * 10_000)])
    await rerank(inner, "links").retrieve("wool", k=1)
    assert inner.queries[0] == "wool"
    assert len(inner.queries[1]) == 2000


def test_weights_come_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "links.json").write_text(json.dumps({"format": 1, "weights": {"linked": 9.0}, "questions": 3}))
    assert read_weights(tmp_path).linked == 9.0
    inner = ScriptedRetriever([FILM])
    assert (
        rerank(inner, f"links:{tmp_path}").name != rerank(inner, "links").name != rerank(inner, "links", depth=9).name
    )
    for broken in ('{"format": 2}', '{"weights": {"linked": "much"}}', "no json"):
        (tmp_path / "links.json").write_text(broken)
        with pytest.raises(DataError, match=r"links\.json: "):
            read_weights(tmp_path)


def test_newton_finds_the_minimum() -> None:
    draw = np.random.default_rng(0)
    true = np.array([2.0, -1.0, 0.5])
    lists = []
    for _ in range(300):
        features = draw.normal(size=(12, 3))
        shares = np.exp(features @ true)
        target = np.zeros(12)
        target[draw.choice(12, p=shares / shares.sum())] = 1.0
        lists.append((features, target))
    assert newton(lists) == pytest.approx(true, abs=0.35)
    separable = [(np.array([[1.0], [0.0]]), np.array([1.0, 0.0]))] * 5
    assert 1 < newton(separable)[0] < 20  # a ridge keeps it finite


def _person(number: int) -> str:
    return f"Mr {chr(97 + number % 26) * 3}{chr(97 + number // 26) * 4}"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> IndexRetriever:
    folder = tmp_path_factory.mktemp("films")
    films = [(f"Film {n} of Nowhere", f"Film {n} of Nowhere was directed by {_person(n)}.") for n in range(40)]
    people = [(_person(n), f"{_person(n)} led a life in a town.") for n in range(40)]
    docs = [
        {"id": f"{kind}{n}", "title": title, "text": text}
        for kind, made in (("film", films), ("person", people))
        for n, (title, text) in enumerate(made)
    ]
    write(folder / "docs", {"films.jsonl": jsonl(docs)})
    build_index(folder / "docs", folder / "index")
    return open_index(folder / "index")


async def test_weights_learn_to_follow_links(films: IndexRetriever) -> None:
    asked = [
        Question(
            id=str(n), text=f"Where did the director of Film {n} of Nowhere live?", gold=(f"film{n}", f"person{n}")
        )
        for n in range(40)
    ]
    search = Linked(films, Weights(), depth=20)
    lists = await candidate_lists(asked[:20], search)
    weights = fit_weights(lists)
    assert fit_weights(await candidate_lists(asked[:20], search)) == weights
    assert len(lists) == 20
    assert weights.linked > 0.5
    before = measured("BM25", asked[20:], await rank(asked[20:], films))
    after = measured("links", asked[20:], await rank(asked[20:], Linked(films, weights, depth=20)))
    assert (before.interval("all@3").mean or 0) < 0.5 < 0.95 < (after.interval("all@3").mean or 0)
    with pytest.raises(DataError, match="no gold passage was found"):
        fit_weights(await candidate_lists([Question(id="x", text="film", gold=("absent",))], search))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "more"), [("hotpotqa", 0.12), ("2wikimultihopqa", 0.08), ("musique", 0.02)])
async def test_the_default_weights_find_more_gold_passages(name: str, more: float, tmp_path: Path) -> None:
    data = need_data(name, "questions.jsonl").parent.parent
    task = load_task(name, data)
    asked = [question for question in questions_of(task) if question.gold][:150]
    build_index(task.corpus, tmp_path / "index")  # type: ignore[attr-defined]
    search = open_index(tmp_path / "index")
    words = measured("BM25", asked, await rank(asked, search))
    links = measured("links", asked, await rank(asked, rerank(search, "links")))
    assert (links.against(words, "recall@3").difference.mean or 0) > more
