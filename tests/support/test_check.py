"""Sentences of an answer, each with the sentence of a passage that supports it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reground.core.answers import PHRASE, TEXT, Answer, AnswerForm
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.core.trajectory import Pair, ScoreStep
from reground.methods.baselines import RAG
from reground.methods.shared.evidence import Evidence
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.support.check import checked

FOUND = [
    Passage(id="d.md", title="Danube", text="The Danube flows through Vienna. It is 2850 km long.", url="d.md"),
    Passage(id="s.md", title="Seine", text="The Seine flows through Paris. It is 775 km long.", url="s.md"),
]


async def answered(reply: str, form: AnswerForm = TEXT) -> tuple[Answer, Run]:
    run = Run()
    method = RAG(model=ScriptedModel([reply]), retriever=ScriptedRetriever(FOUND), form=form)
    return await method.solve("How long is the Danube?", run), run


async def test_every_sentence_is_tied_to_one_of_a_passage_or_to_none() -> None:
    answer, run = await answered("The Danube is 2850 km long [1]. It carries gold dust from distant mountains [2].")
    said = await checked(answer, "How long is the Danube?", run.steps, run)
    assert "".join(each.text for each in said.sentences) == answer.text
    first, second = said.sentences
    assert [(each.marker, each.url, each.quote) for each in first.supports] == [(1, "d.md", "It is 2850 km long.")]
    assert second.supported is False and second.score is not None and second.score < 0.5
    assert said.faithfulness == 0.5
    assert not any(isinstance(step, ScoreStep) for step in run.steps), "words are compared without a record"
    answer, run = await answered("The Danube is 2850 km long [2].")
    (only,) = (await checked(answer, "How long is the Danube?", run.steps, run)).sentences
    assert [each.marker for each in only.supports] == [1], "the passage that says so, whatever was cited"


@pytest.mark.parametrize("read", [0, 1])
async def test_of_a_page_with_two_excerpts_the_one_that_was_read_counts(read: int) -> None:
    texts = ("The Danube flows through Vienna.", "It is 2850 km long.")
    excerpts = [FOUND[0].model_copy(update={"text": text}) for text in texts]
    run = Run()
    for excerpt in excerpts:
        await run.retrieve(ScriptedRetriever([excerpt]), "danube", k=1)
    known = Evidence()
    known.add([excerpts[read]])
    answer = known.answer("The Danube flows through Vienna.", run, TEXT, sources=[1])
    said = await checked(answer, "Where does it flow?", run.steps, run)
    assert said.sentences[0].supported == (read == 0)


async def test_an_answer_that_was_shown_nothing_is_not_checked() -> None:
    answer = Answer(text="The Danube is long.")
    assert await checked(answer, "How long?", (), Run()) == answer
    assert answer.faithfulness is None


@pytest.mark.parametrize(("reply", "share"), [("Answer: 2850 km", 1.0), ("Answer: 3000 km", 0.0)])
async def test_a_phrase_is_checked_with_its_question(reply: str, share: float) -> None:
    answer, run = await answered(reply, PHRASE)
    assert (await checked(answer, "How long is the Danube?", run.steps, run)).faithfulness == share


class Paris:
    """Supports whatever a sentence with Paris in it says."""

    name = "paris"

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        return [float("Paris" in pair.context) for pair in pairs]


async def test_a_check_of_ones_own_is_recorded_and_decides() -> None:
    answer, run = await answered("The Danube is 2850 km long.")
    said = await checked(answer, "How long is the Danube?", run.steps, run, check=Paris())
    assert [each.quote for each in said.sentences[0].supports] == ["The Seine flows through Paris."]
    (step,) = (step for step in run.steps if isinstance(step, ScoreStep))
    assert step.name == "support"
    assert {pair.candidate for pair in step.pairs} == {"The Danube is 2850 km long."}


@pytest.mark.parametrize("text", ["", "?", "[1]", "```python\nx = 1\n```"])
async def test_texts_that_claim_nothing_or_hardly_anything(text: str) -> None:
    run = Run()
    await run.retrieve(ScriptedRetriever(FOUND), "rivers", k=2)
    answer = Answer(text=text, shown=(await answered("Vienna."))[0].shown)
    said = await checked(answer, "How long?", run.steps, run)
    assert "".join(each.text for each in said.sentences) == text
