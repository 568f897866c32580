"""Answers that begin with what the passages say: quotations are evidence, and the answer is what stands behind them."""

from collections.abc import Callable
from pathlib import Path

import pytest

import reground
from reground.core.answers import PHRASE, TEXT, Answer, AnswerForm
from reground.core.evidence import Passage
from reground.core.run import Method, Run
from reground.methods.baselines import RAG
from reground.methods.grounded import Grounded
from reground.methods.rar import RaR
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.support.check import compared

QUESTION = "How long is the Danube?"
FOUND = [
    Passage(id="d", title="Danube", text="The Danube flows\nthrough Vienna. It is 2850 km long.", url="d.txt"),
    Passage(id="s", title="Seine", text="The Seine flows through Paris. It is 775 km long.", url="s.txt"),
]


async def answered(reply: str, form: AnswerForm = PHRASE) -> Answer:
    """What RAG makes of the reply, checked."""
    run = Run()
    method = RAG(model=ScriptedModel([reply]), retriever=ScriptedRetriever(FOUND), form=form, quote=True)
    return compared(await method.solve(QUESTION, run), QUESTION, run.steps)


@pytest.mark.parametrize(
    ("reply", "form", "text"),
    [
        ('"It is 2850 km long." [1]\nAnswer: 2850 km', PHRASE, "2850 km"),
        ('[2] "It is 2850 km long." Answer: 2850 km', PHRASE, "2850 km"),  # the wrong number
        (
            "The Danube flows through Vienna [1]. It is 2850 km long [1].\nAnswer: 2850 km",
            PHRASE,
            "2850 km",
        ),  # without its marks
        ('"It is 2850 km long." [1]\n\nThe Danube is 2850 km long [1].', TEXT, "The Danube is 2850 km long [1]."),
        (
            '"It is 2850 km long." [1]\n\nThe final answer: it is 2850 km long.',
            TEXT,
            "The final answer: it is 2850 km long.",
        ),
        ('"It is 2850 km long." [1]', TEXT, '"It is 2850 km long." [1]'),  # nothing else
    ],
)
async def test_a_quotation_is_the_evidence_and_what_is_behind_it_the_answer(
    reply: str, form: AnswerForm, text: str
) -> None:
    answer = await answered(reply, form)
    assert (answer.text, answer.misquoted) == (text, ())
    assert (answer.quoted[-1].marker, answer.quoted[-1].passage_id) == (1, "d")
    assert [each.quote for each in answer.sentences[0].supports] == ["It is 2850 km long."]
    assert [each.marker for each in answer.citations] == [1]


@pytest.mark.parametrize(
    ("reply", "form"),
    [
        ("2850 km", PHRASE),
        ("The Danube is the longer one.\nAnswer: 2850 km [1]", PHRASE),
        ('"2850 km" [1]', PHRASE),
        ("The Danube is 2850 km long [1].", TEXT),
        ('"The Danube" [1] is 2850 km long.', TEXT),
        ("[1] Answer: 2850 km", PHRASE),
    ],
)
async def test_a_reply_without_quotations_passes_untouched(reply: str, form: AnswerForm) -> None:
    answer = await answered(reply, form)
    assert (answer.text, answer.quoted, answer.misquoted) == (reply, (), ())
    assert answer.sentences[-1].supported


async def test_what_no_passage_has_is_told_and_the_answer_judged_by_words() -> None:
    answer = await answered('"It is 3000 km long." [1]\nAnswer: 2850 km')
    assert (answer.text, answer.misquoted, answer.quoted) == ("2850 km", ("It is 3000 km long.",), ())
    assert [each.quote for each in answer.sentences[0].supports] == ["It is 2850 km long."]


async def test_a_bare_answer_that_its_quotation_does_not_hold_is_not_supported() -> None:
    answer = await answered('"The Danube flows through Vienna." [2]\nAnswer: 2850 km')
    assert [each.marker for each in answer.quoted] == [1]
    assert answer.sentences[0].supported is False


@pytest.mark.parametrize("method", [Grounded, RaR])
async def test_other_methods_ask_for_quotations_at_their_end(method: Callable[..., Method]) -> None:
    said = '"It is 2850 km long." [1]\n\nAnswer: 2850 km'
    model = ScriptedModel(lambda messages, sampling: said if "First copy" in messages[-1].content else "Answer: 775 km")
    solver = method(model=model, retriever=ScriptedRetriever(FOUND), form=PHRASE, quote=True, max_rounds=1)
    answer = await solver.solve(QUESTION, Run())
    assert (answer.text, [each.passage_id for each in answer.quoted]) == ("2850 km", ["d"])


def test_ask_tells_both_kinds_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text(FOUND[0].text)
    model = ScriptedModel(['"It is 2850 km long." [1] "It is 3000 km long." [1]\n\nThe Danube is 2850 km long.'])
    settings = {"quote": True}
    result = reground.ask(
        QUESTION, method="rag", model=model, corpus=tmp_path / "d.txt", home=tmp_path / "home", settings=settings
    )
    told = result.to_dict()
    assert (told["answer"], told["misquoted"]) == ("The Danube is 2850 km long.", ["It is 3000 km long."])
    assert [(each["quote"], each["line"]) for each in told["quoted"]] == [("It is 2850 km long", 2)]
