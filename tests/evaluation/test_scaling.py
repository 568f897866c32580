"""A method at a limit: what a dry run counts, which sizes fit, and what the user has set stays."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reground.core.answers import PHRASE
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Method, Run, solve
from reground.evaluation.scaling import PASSAGE_WORDS, scaled, sizes, usual
from reground.methods.baselines import DOCUMENTS, RAG, Direct
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.test_perfect_reviser import at_hand, lines_of

SILENT = ScriptedModel([])
EMPTY = ScriptedRetriever([])


def rag(**settings: object) -> RAG:
    return RAG(model=SILENT, retriever=EMPTY, form=PHRASE, **settings)  # type: ignore[arg-type]


def cost(method: Method) -> int:
    return usual(method).tokens


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
    assert sorted(one.k for one in sizes(rag(max_tokens=9))) == list(DOCUMENTS)
    rat = RAT(model=SILENT, retriever=ScriptedRetriever([]), k=2, max_contents=4)
    kept = sizes(rat, keep=["k"])
    assert {one.k for one in kept} == {2} and kept[0] == rat
    assert all(one.max_contents >= 2 for one in kept), "sizes that do not go with it are left out"


class Usual:
    """A model and a retriever whose replies and passages have the usual lengths of HotpotQA, and are never the same.

    A call is known by its longest reply: that of a query, of a reflection, or of a text.
    """

    name = "usual"
    draft = (
        "The first of the two rivers rises in the Black Forest, flows through Vienna and is about 2850 km long.\n\n"
        "The second of them rises in the Swiss Alps, passes Cologne on its way and is some 1230 km long.\n\n"
        "So the first river is longer than the second, and their lengths differ by about 1620 km.\n\n"
        "Answer: the Danube"
    )

    def __init__(self) -> None:
        self.count = itertools.count(1)
        self.own: set[str] = set()

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        number = next(self.count)
        if sampling.max_tokens == RaR.query_tokens:
            text = f"length of the river number {number} in Europe"
        elif sampling.max_tokens == RaR.reflection_tokens:
            text = f"The step says {number} km, but passage [1] says that the river is {number + 1} km long."
        else:
            lines = at_hand(messages, self.own)
            text = "\n\n".join(re.sub(r"\d+", str(number), line) for line in lines) if self.own else self.draft
            self.own.update(lines_of(text))
        prompt = sum(4 + len(message.content.encode()) // 4 for message in messages)
        return [Reply(text=text, usage=Usage(calls=1, prompt=prompt, completion=len(text.encode()) // 4))]

    async def retrieve(self, query: str, /, *, k: int) -> list[Passage]:
        return [Passage(id=f"p{next(self.count)}", title="A river", text="passage " * PASSAGE_WORDS) for _ in range(k)]


ASKED = "Which of the rivers of Vienna and of Cologne is longer?"


@pytest.mark.parametrize("kind", [RAT, RaR])
async def test_an_estimate_is_near_what_replies_of_usual_length_take(kind: type[RAT] | type[RaR]) -> None:
    usual, run = Usual(), Run()
    method = kind(model=usual, retriever=usual, form=PHRASE)
    await solve(method, ASKED, run, id="q", name="any")
    assert cost(method) == pytest.approx(run.usage.tokens, rel=0.3)
