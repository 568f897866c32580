"""A method at a limit: what a dry run counts, which sizes fit, and what the user has set stays."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from reground.app import catalogue
from reground.core.answers import PHRASE
from reground.core.budget import Budget
from reground.core.language import Reply, TokenLogprob
from reground.core.run import Run
from reground.evaluation.scaling import cost, scaled, sizes
from reground.methods.direct import Direct
from reground.methods.rag import DOCUMENTS, RAG
from reground.methods.rat import RAT
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.every import Refuses

SILENT = ScriptedModel([])
EMPTY = ScriptedRetriever([])


def rag(**settings: object) -> RAG:
    return RAG(model=SILENT, retriever=EMPTY, form=PHRASE, **settings)  # type: ignore[arg-type]


def test_a_dry_run_calls_nobody_and_counts_prompts_and_usual_replies() -> None:
    one, two = cost(rag(k=1)), cost(rag(k=2))
    assert 150 < two - one < 250, "a passage"
    assert cost(rag(k=2, max_tokens=4096)) == two, "a reply is as long as its form's usually is, whatever it may be"
    assert cost(rag(k=2, max_tokens=32)) == pytest.approx(two - PHRASE.usual + 16, abs=10), "or half of a short limit"
    assert cost(replace(rag(k=2), form=replace(PHRASE, usual=164))) == pytest.approx(two + 100, abs=15)
    assert SILENT.calls == []
    assert cost(Direct(model=SILENT, form=PHRASE)) < one


def test_a_method_fills_the_limit_and_is_never_smaller_than_its_own_settings() -> None:
    assert scaled(rag(), None) == rag()
    assert scaled(rag(), cost(rag(k=11))) == rag(k=11)
    assert scaled(rag(), 100_000) == rag(k=DOCUMENTS[-1])
    for limit in (1, cost(rag(k=3)), cost(rag(k=8)) - 1):
        assert scaled(rag(), limit) == rag(), "the limit ends what does not fit"
    assert scaled(rag(k=7), cost(rag(k=8)) - 1) == rag(k=7), "a size between the others"


def test_what_the_user_has_set_stays() -> None:
    assert sizes(rag(k=7), keep=["k"]) == [rag(k=7)]
    assert [one.k for one in sizes(rag(max_tokens=9))] == list(DOCUMENTS)
    rat = RAT(model=SILENT, retriever=ScriptedRetriever([]), k=2, max_contents=4)
    kept = sizes(rat, keep=["k"])
    assert {one.k for one in kept} == {2}
    assert all(one.max_contents >= 2 for one in kept), "sizes that do not go with it are left out"


def test_it_can_be_asked_from_inside_a_loop() -> None:
    async def asked() -> int:
        return cost(rag())

    assert asyncio.run(asked()) == cost(rag())


class Wordy(ScriptedModel):
    """Replies of usual length, whatever it is asked."""

    def __init__(self) -> None:
        text = "The Danube has 2850 km.\n\nThe Rhine has 1230 km.\n\nAnswer: A"
        sure = (TokenLogprob(token=text, logprob=-0.1),)
        super().__init__(
            lambda messages, sampling: Reply(text=text, token_logprobs=sure if sampling.logprobs else None)
        )


@pytest.mark.parametrize("name", sorted(catalogue.methods()))
async def test_no_method_spends_more_than_a_few_times_what_its_dry_run_says(name: str) -> None:
    """The estimate is for the choice of a size. The run's own limits hold whatever it says."""
    parts = {"retriever": ScriptedRetriever([]), "sandbox": Refuses()}
    method = scaled(catalogue.build_method(name, model=Wordy(), form=None, settings={}, **parts), 3000)
    run = Run(budget=Budget(tokens=50_000))
    await method.solve("Which river is longer?", run)
    assert run.usage.tokens <= 3 * cost(method)
