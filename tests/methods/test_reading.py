"""Reading answers from passages: quotes, phrases, abstaining, votes, and one passage at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import ABSTENTION, FORMS, NUMBER, PHRASE, PROGRAM, TEXT, AnswerForm, abstains
from reground.core.language import Reply, Sampling, TokenLogprob
from reground.core.run import Run
from reground.core.trajectory import GenerateStep, NoteStep
from reground.methods.baselines import RAG
from reground.methods.grounded import Grounded, Reader, elected
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, by_job

QUESTION = "Which is longer, the river of Vienna or that of Cologne?"


def said(text: str, logprob: float | None = None) -> Reply:
    tokens = None if logprob is None else (TokenLogprob(token=text, logprob=logprob),)
    return Reply(text=text, token_logprobs=tokens)


def once(model: ScriptedModel, **settings) -> Grounded:
    """Grounded without rounds."""
    settings = {"form": PHRASE, "retriever": ScriptedRetriever(PASSAGES)} | settings
    return Grounded(model=model, max_rounds=0, **settings)


def samplings(run: Run) -> list[Sampling]:
    return [step.sampling for step in run.steps if isinstance(step, GenerateStep)]


@pytest.mark.parametrize(
    ("replies", "place"),
    [
        ([said("Rhine", -0.1), said("Danube", -0.5), said("danube ", -0.6)], 1),
        ([said("Rhine", -0.1), said("Danube", -2.0), said("Danube", -2.5)], 0),
        ([said("Rhine"), said("Danube"), said("Answer: Danube")], 1),
        ([said(ABSTENTION, -0.01), said("Danube", -3.0)], 1),
        ([said(ABSTENTION, -0.5), said("Not in these passages", -0.1)], 1),
        ([said("", -0.1), said("Danube", -3.0)], 1),
        ([said("Answer: Rhine", -0.4), said("The Rhine.\nAnswer: Rhine", -0.2)], 1),
    ],
)
def test_the_answer_with_most_probability_wins(replies: list[Reply], place: int) -> None:
    assert elected(replies, PHRASE) == place


@given(st.lists(st.sampled_from(["Rhine", "Danube", ABSTENTION, ""]), min_size=1, max_size=8), st.randoms())
def test_an_answer_wins_wherever_there_is_one_and_order_does_not_count(texts: list[str], draw) -> None:
    replies = [said(text, -0.1 - place / 7) for place, text in enumerate(texts)]
    winner = replies[elected(replies, PHRASE)].text
    shuffled = list(replies)
    draw.shuffle(shuffled)
    assert (winner in {"Rhine", "Danube"}) == any(text in {"Rhine", "Danube"} for text in texts)
    if winner in {"Rhine", "Danube"}:
        assert shuffled[elected(shuffled, PHRASE)].text == winner


async def test_samples_vote_in_one_call() -> None:
    scripted = ScriptedModel([said("Rhine", -0.2), said("Danube", -0.3), said("Danube", -0.4)])
    run = Run()
    answer = await once(scripted, votes=3).solve(QUESTION, run)
    assert answer.text == "Danube"
    (sampling,) = samplings(run)
    assert (sampling.n, sampling.temperature, sampling.logprobs) == (3, 0.7, True)
    (vote,) = [step for step in run.steps if step.kind == "choose"]
    assert (vote.name, vote.chosen, len(vote.candidates)) == ("vote", 1, 3)


async def test_passages_read_apart_do_not_meet_and_the_one_that_answered_is_shown() -> None:
    scripted = by_job({
        "Seine": ABSTENTION, "Cologne.": said("1230 km", -1.0), "Vienna.": said("Danube", -0.1)
    })  # fmt: skip
    answer = await once(scripted, apart=True, abstain=True).solve(QUESTION, Run())
    assert [prompt.count("<passage number") for prompt in scripted.prompts] == [1, 1, 1]
    assert answer.text == "Danube"
    assert [passage.title for passage in answer.shown] == ["Danube"]


@pytest.mark.parametrize("quote", [False, True])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_without_rounds_it_asks_what_rag_asks(form: AnswerForm, quote: bool) -> None:
    plain, same = ScriptedModel(["Danube"]), ScriptedModel(["Danube"])
    run, retriever = Run(), ScriptedRetriever(PASSAGES)
    await RAG(model=plain, retriever=retriever, form=form, k=3, quote=quote).solve(QUESTION, Run())
    await once(same, form=form, quote=quote).solve(QUESTION, run)
    assert same.prompts == plain.prompts
    (sampling,) = samplings(run)
    assert (sampling.n, sampling.temperature) == (1, 0.0)


def reader(form: AnswerForm, **settings) -> Reader:
    return Reader(model=ScriptedModel([]), form=form, **settings)


@pytest.mark.parametrize(("form", "quotes"), [(PHRASE, True), (TEXT, True), (NUMBER, False), (PROGRAM, False)])
def test_quotes_are_asked_for_where_the_form_cites(form: AnswerForm, quotes: bool) -> None:
    stated = reader(form, quote=True).stated(abstain=False)
    assert ("First copy the sentences" in stated) == quotes
    assert stated.endswith(form.instruction if quotes else form.short)
    assert reader(form, abstain=True).stated(abstain=True).endswith(ABSTENTION)


@pytest.mark.parametrize(("form", "brief"), [(PHRASE, True), (TEXT, True), (NUMBER, False), (PROGRAM, False)])
def test_a_phrase_is_asked_for_where_one_can_answer(form: AnswerForm, brief: bool) -> None:
    stated = reader(form, brief=True).stated(abstain=False)
    assert stated.startswith("Write only the answer") == brief
    assert stated.endswith(form.short) != brief


async def test_passages_that_lack_the_question_s_names_end_it_without_a_call() -> None:
    model = ScriptedModel(["Paris"])
    run = Run()
    answer = await once(model, abstain=True, by_words="silence").solve("Where was Niels Abel born?", run)
    assert (answer.text, len(answer.shown), model.prompts) == (ABSTENTION, 3, [])
    (note,) = [step for step in run.steps if isinstance(step, NoteStep) and step.name == "abstained"]
    assert note.data["lacking"] == 1.0


@pytest.mark.parametrize("by_words", ["silence", "both"])
async def test_passages_with_the_question_s_words_may_leave_no_right_to_abstain(by_words: str) -> None:
    model = ScriptedModel(["the Danube"])
    question = "How long is the Danube?"
    assert (await once(model, abstain=True, by_words=by_words).solve(question, Run())).text == "the Danube"
    assert (ABSTENTION in model.prompts[0]) == (by_words == "silence")


async def test_in_between_the_model_says_whether_the_passages_answer() -> None:
    model = ScriptedModel([ABSTENTION])
    question = "How long is the Danube of the painters?"
    assert (await once(model, abstain=True, by_words="both").solve(question, Run())).text == ABSTENTION
    assert ABSTENTION in model.prompts[0]


def test_what_abstains() -> None:
    assert abstains(" Not in these\npassages.")
    assert abstains("Not in these passages")
    assert not abstains("It is not in these passages.")


@pytest.mark.parametrize("method", [RAG, Grounded])
async def test_a_reply_of_nothing_but_markers_is_asked_again_without_them(method: type[RAG | Grounded]) -> None:
    model = ScriptedModel(["[1]", "The Danube is longer.", "Danube", "The Danube is longer."])
    answer = await method(model=model, retriever=ScriptedRetriever(PASSAGES), k=3).solve(QUESTION, Run())
    assert answer.text == "The Danube is longer."
    first, second, *_ = model.prompts
    assert "square brackets" in first
    assert "square brackets" not in second
    assert second.partition("Answer the question")[0] == first.partition("Answer the question")[0]
