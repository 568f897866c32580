"""The reward of a rewriting: equations 6 and 7 by hand, on the method itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reground.core.errors import AuthenticationError, ConfigurationError, ModelError, TransientModelError
from reground.core.evidence import Passage
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.models.scripted import ScriptedModel
from reground.training.rewriter.reward import (
    GAIN,
    NO_READER,
    RANK,
    RETRIEVAL,
    PipelineReward,
    retriever_only,
    reward_weights,
    teaches,
)

DANUBE = Passage(id="w-1", title="Danube", text="The Danube flows through Vienna and Budapest.")
RHINE = Passage(id="w-2", title="Rhine", text="The Rhine flows through Cologne.")
SEINE = Passage(id="w-3", title="Seine", text="The Seine flows through Paris.")
PAGES = {"river of Vienna": [RHINE, DANUBE], "Cologne": [RHINE], "Paris": [SEINE, RHINE]}
EXAMPLE = Example(
    id="q1", question="Which river?", golden_answers=("Danube", "the Donau"), metadata={"gold_ids": ["w-1"]}
)
TASK = QuestionAnswering(name="rivers_train", primary="token F1", loaded=(EXAMPLE,))


class Library:
    """Finds what is written down for a query."""

    name = "library"

    async def retrieve(self, query: str, /, *, k: int) -> list[Passage]:
        return PAGES.get(query, [])[:k]


def method(*replies: object, **settings: object) -> RewriteRetrieveRead:
    model = ScriptedModel(list(replies)) if replies else ScriptedModel(lambda messages, sampling: "Answer: Rhine")
    return RewriteRetrieveRead(model=model, retriever=Library(), **{"total": 2, **settings})


def without_reader(method: RewriteRetrieveRead) -> RewriteRetrieveRead:
    return replace(method, model=NO_READER)


@pytest.mark.parametrize(
    ("rewriting", "answer", "wanted"),
    [
        ("river of Vienna", "Answer: Danube", 1 + 1 + 1),
        ("river of Vienna", "Answer: Danube river", 0 + 2 / 3 + 1),
        ("Cologne", "Answer: Danube", 1 + 1 - 1),
        ("Cologne", "Answer: Rhine", 0 + 0 - 1),
        ("Cologne; river of Vienna", "Answer: Rhine", 0 + 0 + 1),
    ],
)
async def test_the_papers_reward(rewriting: str, answer: str, wanted: float) -> None:
    reward = PipelineReward(method(answer), TASK, reward_weights("paper", TASK))
    judged = await reward(EXAMPLE, rewriting)
    assert judged["score"] == pytest.approx(wanted)
    assert judged["invalid"] == 0


@pytest.mark.parametrize(
    ("rewriting", "hit", "rank"),
    [("river of Vienna", 1.0, 1 / 2), ("Paris", -1.0, 0.0), ("Paris; river of Vienna", -1.0, 0.0), ("", -1.0, 0.0)],
)
async def test_a_reward_of_what_is_retrieved_alone(rewriting: str, hit: float, rank: float) -> None:
    """Two passages are read: of two queries, the first of each."""
    model = ScriptedModel([])
    quiet = without_reader(RewriteRetrieveRead(model=model, retriever=Library(), total=2))
    judged = await PipelineReward(quiet, TASK, RETRIEVAL)(EXAMPLE, rewriting)
    assert (judged["hit"], judged[RANK]) == (hit, pytest.approx(rank))
    assert judged["score"] == pytest.approx(hit + rank)
    assert judged["invalid"] == float(not rewriting)
    assert not model.calls


class Refusing(Library):
    """Takes no query of one word."""

    async def retrieve(self, query: str, /, *, k: int) -> list[Passage]:
        if " " not in query:
            raise ModelError("the search service refuses this query")
        return await super().retrieve(query, k=k)


async def test_neither_silence_nor_a_failed_search_pays_more_than_a_miss() -> None:
    quiet = without_reader(RewriteRetrieveRead(model=ScriptedModel([]), retriever=Refusing(), total=2))
    reward = PipelineReward(quiet, TASK, {**RETRIEVAL, "gold recall": 1.0})
    judged = {text: await reward(EXAMPLE, text) for text in ("no such river", "", "none", "refused")}
    assert {text: found["score"] for text, found in judged.items()} == dict.fromkeys(judged, -1.0)
    assert [found["failed"] for found in judged.values()] == [0, 0, 0, 1]


class Shelf(Library):
    """Finds two long passages before the one with the answer."""

    async def retrieve(self, query: str, /, *, k: int) -> list[Passage]:
        long = " ".join(["word"] * 100)
        return [*(Passage(id=name, title=name, text=long) for name in "ab"), DANUBE][:k]


@pytest.mark.parametrize(("words", "hit", "rank"), [(150, -1.0, 0.0), (300, 1.0, 1 / 3)])
async def test_a_passage_that_the_reader_does_not_see_has_no_place(words: int, hit: float, rank: float) -> None:
    reading = RewriteRetrieveRead(model=ScriptedModel([]), retriever=Shelf(), total=3, word_budget=words)
    judged = await PipelineReward(without_reader(reading), TASK, RETRIEVAL)(EXAMPLE, "river of Vienna")
    assert (judged["hit"], judged[RANK]) == (hit, pytest.approx(rank))


class Hiding(QuestionAnswering):
    """A task whose gold passages must not be found."""

    def hidden(self, example: Example) -> frozenset[str]:
        return frozenset({DANUBE.id})


async def test_what_a_task_hides_is_not_found() -> None:
    task = Hiding(name="rivers_train", primary="token F1", loaded=(EXAMPLE,))
    judged = await PipelineReward(without_reader(method()), task, RETRIEVAL)(EXAMPLE, "river of Vienna")
    assert (judged["hit"], judged[RANK]) == (-1.0, 0.0)


class Pieces(Library):
    """Finds pieces, and opens the documents that they are of."""

    async def retrieve(self, query: str, /, *, k: int) -> list[Passage]:
        piece = {"title": "", "text": "It flows."}
        return [each.model_copy(update={"id": f"{each.id}#0", **piece}) for each in PAGES[query][:k]]

    async def page(self, passage_id: str, /) -> Passage | None:
        name = passage_id.rpartition("#")[0]
        return next(each for each in (DANUBE, RHINE, SEINE) if each.id == name)


class Numbered(Pieces):
    """Finds documents whose own ids end as those of pieces do."""

    async def page(self, passage_id: str, /) -> Passage | None:
        page = await super().page(passage_id)
        return page and page.model_copy(update={"id": passage_id})


@pytest.mark.parametrize("library", [Pieces, Numbered])
async def test_an_opened_page_is_no_query_and_has_no_place_of_its_own(library: type[Pieces]) -> None:
    """Of two documents the second holds the answer, and only behind the piece that was found."""
    opening = RewriteRetrieveRead(model=ScriptedModel([]), retriever=library(), total=2, content="bm25")
    judged = await PipelineReward(without_reader(opening), TASK, RETRIEVAL)(EXAMPLE, "river of Vienna")
    assert judged[RANK] == 1 / 2


async def test_the_gain_is_what_the_question_itself_does_not_bring() -> None:
    reward = PipelineReward(without_reader(method()), TASK, RETRIEVAL)
    found, lost = await reward(EXAMPLE, EXAMPLE.question), await reward(EXAMPLE, "Paris")
    assert found[GAIN] == 0
    assert lost[GAIN] == pytest.approx(lost["score"] - found["score"])
    assert GAIN not in await PipelineReward(method(), TASK, {"exact match": 1.0})(EXAMPLE, "Paris")


def test_what_a_reward_learns_nothing_from() -> None:
    yes = EXAMPLE.model_copy(update={"golden_answers": ("yes",)})
    assert teaches(EXAMPLE, RETRIEVAL)
    assert not teaches(yes, RETRIEVAL)
    assert teaches(yes, {"exact match": 1.0, "hit": 1.0})
    assert teaches(yes, {"hit": 1.0, "gold recall": 1.0})
    assert not teaches(EXAMPLE.model_copy(update={"golden_answers": ()}), {"exact match": 1.0})


async def test_a_reader_that_is_away_for_a_while_is_waited_for() -> None:
    away = [TransientModelError("busy")] * 3
    reward = PipelineReward(method(*away, "Answer: Danube"), TASK, {"exact match": 1.0}, pause=0.001)
    assert (await reward(EXAMPLE, "river of Vienna"))["score"] == 1
    short = PipelineReward(method(*away), TASK, {"exact match": 1.0}, pause=0.001, patience=0.002)
    with pytest.raises(TransientModelError, match="busy"):
        await short(EXAMPLE, "river of Vienna")


async def test_a_refused_key_ends_the_training() -> None:
    reward = PipelineReward(method(AuthenticationError("no")), TASK, {"exact match": 1.0})
    with pytest.raises(AuthenticationError):
        await reward(EXAMPLE, "river of Vienna")


def test_rewards_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match="fixed number of passages: set total"):
        PipelineReward(method(total=None), TASK, RETRIEVAL)
    with pytest.raises(ConfigurationError, match=r"rivers_train has no metric 'hits' to reward; did you mean hit\?"):
        PipelineReward(method(), TASK, {"hits": 1.0})
    assert retriever_only({"hit": 1.0})
    assert not retriever_only({"hit": 1.0, "token F1": 1.0})


async def test_a_reader_that_fails_again_and_again_ends_the_training() -> None:
    refused = ModelError("the request is not understood")
    model = ScriptedModel(lambda messages, sampling: refused)
    reward = PipelineReward(
        RewriteRetrieveRead(model=model, retriever=Library(), total=2), TASK, {"exact match": 1.0, "hit": 1.0}
    )
    judged = await reward(EXAMPLE, "river of Vienna")
    assert (judged["score"], judged["failed"]) == (-1.0, 1.0), "what failed counts as a miss"
    for _ in range(18):
        await reward(EXAMPLE, "river of Vienna")
    with pytest.raises(ModelError, match=r"failed at 20 rewritings in a row, .* not understood"):
        await reward(EXAMPLE, "river of Vienna")
