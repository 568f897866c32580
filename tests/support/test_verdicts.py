"""What documents say of anybody's answer, claim by claim."""

from __future__ import annotations

import pytest

from reground.core.errors import RegroundError
from reground.core.evidence import Passage
from reground.retrieval.scripted import ScriptedRetriever
from reground.support.verdicts import MOST_CHARACTERS, Checked, Verdict, verdicts

DANUBE = Passage(
    id="danube.md", title="Danube", url="danube.md", text="The Danube flows through Vienna. It is 2850 km long."
)
SEINE = Passage(id="seine.md", title="Seine", url="seine.md", text="The Seine flows through Paris. It is 775 km long.")


async def checked(answer: str, *passages: Passage, question: str = "") -> list[Checked]:
    said = await verdicts(answer, ScriptedRetriever(passages or [DANUBE, SEINE]), question=question)
    assert "".join(each.text for each in said) == answer
    return said


async def test_each_claim_is_searched_for_and_tied_to_what_says_it() -> None:
    said = await checked("# Rivers\n\nThe Danube is 2850 km long. It carries gold dust from distant mountains.")
    assert [each.verdict for each in said] == [Verdict.NO_CLAIM, Verdict.SUPPORTED, Verdict.NOT_FOUND]
    assert [(each.quote, each.url) for each in said[1].evidence] == [("It is 2850 km long.", "danube.md")]


async def test_what_an_answer_repeats_is_searched_for_once_and_progress_is_told() -> None:
    retriever, told = ScriptedRetriever([DANUBE]), list[tuple[int, int]]()
    said = await verdicts("The Danube is long.\n" * 9, retriever, progress=lambda *each: told.append(each))
    assert (len(said), len(retriever.queries), told) == (9, 1, [(1, 1)])


@pytest.mark.parametrize("answer", ["A fact. " * MOST_CHARACTERS, " ".join(f"Fact {at} is so." for at in range(9000))])
async def test_an_answer_that_is_too_long_ends_in_one_line_before_any_search(answer: str) -> None:
    retriever = ScriptedRetriever([DANUBE])
    with pytest.raises(RegroundError, match="check it in parts"):
        await verdicts(answer, retriever)
    assert not retriever.queries


@pytest.mark.parametrize("answer", ["", " \n", "...", "Which river?"])
async def test_what_claims_nothing_is_not_searched_for(answer: str) -> None:
    assert all(each.verdict is Verdict.NO_CLAIM for each in await checked(answer))
