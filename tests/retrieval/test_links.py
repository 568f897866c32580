"""Following titles: features by hand, a second document that no word of the question names."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.core.evidence import Pages, Passage
from reground.retrieval.rerank import Linked, Weights, read_weights, rerank
from reground.retrieval.scripted import ScriptedRetriever

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
