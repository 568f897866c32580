"""Grounded: what each call reads, which answer stays, when the rounds end, and when it abstains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.app.catalogue import build_method
from reground.core.answers import ABSTENTION, FORMS, NUMBER, PHRASE, PROGRAM, TEXT, AnswerForm
from reground.core.budget import Budget
from reground.core.evidence import Passage
from reground.core.language import Reply, TokenLogprob
from reground.core.run import Run, solve
from reground.core.trajectory import NoteStep
from reground.evaluation.scaling import scaled
from reground.methods.baselines import RAG
from reground.methods.grounded import Grounded, words_lacking
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, Failing, Paid, by_job, effects, notes, queries

QUESTION = "Which is longer, the river of Vienna or that of Cologne?"
NAMES, FIRST = "whose pages", "First state in one or two"
LONG = [
    Passage(id=str(i), title=f"River {i}", text=f"The Danube and the Rhine meet number {i}. " * 100) for i in range(9)
]


def grounded(scripted, retriever=None, form=PHRASE, **settings):
    return Grounded(model=scripted, retriever=retriever or ScriptedRetriever(PASSAGES), form=form, **settings)


def sure(text: str, logprob: float | None) -> Reply:
    tokens = None if logprob is None else (TokenLogprob(token=text, logprob=logprob),) * 2
    return Reply(text=text, token_logprobs=tokens)


def replies(said):
    """A draft, and then for each round the names and an answer."""
    first, *later = [sure(*one) for one in said]
    return [first, *(reply for one in later for reply in ("Danube; Rhine", one))]


async def test_it_reads_answers_names_what_to_read_next_and_answers_from_everything():
    scripted = by_job({NAMES: "Danube; Rhine", "": ["Answer: Seine", "Answer: Danube"]})
    run = Run()
    answer = await grounded(scripted, k=1, max_rounds=1).solve(QUESTION, run)
    names = [("", "retrieve"), ("", "draft"), *(("/round.0", name) for name in ("query", "retrieve", "refine"))]
    assert [effect for effect in effects(run) if effect[1] in {"retrieve", "draft", "query", "refine"}] == names
    assert queries(run) == [QUESTION, "Danube; Rhine"]
    draft, names_prompt, refined = scripted.prompts
    assert [prompt.count("<passage number") for prompt in scripted.prompts] == [1, 1, 2]
    shared = draft[: draft.index("Answer the question with")]
    assert names_prompt.startswith(shared)
    assert refined.startswith(shared[: shared.index("</passage>")])
    assert "Seine" not in refined, "an answer is written without sight of the one before"
    assert answer.text == "Answer: Danube"
    assert [passage.marker for passage in answer.shown] == [1, 2]


@pytest.mark.parametrize(
    ("said", "expected", "chosen"),
    [
        ([("Seine", -0.5), ("Danube", -0.1), ("Danube", -0.9)], "Danube", [1]),
        ([("Seine", -0.5), ("Danube", -0.5), ("Danube", -0.9)], "Danube", [1]),
        ([("Seine", -0.1), ("Danube", -0.5), ("Rhine", -0.2)], "Seine", [0, 0]),
        ([("Seine", -0.3), ("Danube", -0.5), ("Rhine", -0.2)], "Rhine", [0, 1]),
    ],
)
async def test_the_surer_answer_stays_and_the_same_one_again_ends_the_rounds(said, expected, chosen):
    scripted, run = ScriptedModel(replies(said)), Run()
    answer = await grounded(scripted, k=1).solve(QUESTION, run)
    assert answer.text == expected
    choices = [step for step in run.steps if step.kind == "choose"]
    assert [choice.chosen for choice in choices] == chosen
    assert [candidate.logprob for candidate in choices[0].candidates] == [said[0][1], said[1][1]]
    kept = max(place for place, (text, _) in enumerate(said) if text == expected and place <= len(chosen))
    assert [passage.marker for passage in answer.shown] == list(range(1, kept + 2)), "what brought no better answer"


async def test_without_log_probabilities_the_later_answer_goes_on_and_a_note_says_so():
    scripted, run = ScriptedModel(replies([("Seine", None), ("Danube", None), ("Danube", None)])), Run()
    answer = await grounded(scripted, k=1).solve(QUESTION, run)
    assert answer.text == "Danube"
    assert len(notes(run, "refined answer taken")) == 1


async def test_rounds_end_where_nothing_is_found():
    run, scripted = Run(), by_job({NAMES: "Danube", "": "Answer: Seine"})
    answer = await grounded(scripted, retriever=Failing(nothing_for="Danube")).solve(QUESTION, run)
    assert answer.text == "Answer: Seine"
    assert [note.data["why"] for note in notes(run, "rounds ended")] == ["nothing was retrieved"]


def metered() -> Paid:
    """Names and another answer each time."""
    count = iter(range(99))
    return Paid(lambda messages, _: "Danube; Rhine" if NAMES in messages[-1].content else f"Answer: {next(count)}")


@pytest.mark.parametrize("tokens", [1500, 2400, 4000, 8000, 12000])
async def test_whatever_the_length_of_passages_every_round_fits(tokens):
    method = scaled(grounded(metered(), ScriptedRetriever(LONG), max_tokens=256), tokens)
    run = Run(budget=Budget(tokens=tokens))
    solved = await solve(method, QUESTION, run, id="q", name="grounded")
    named = [name for _, name in effects(run)]
    assert solved.trajectory.stopped is None
    assert named.count("query") == named.count("refine") == method.max_rounds
    assert run.usage.tokens <= tokens


async def test_a_reader_is_brief_and_may_abstain():
    scripted = by_job({NAMES: "Rhine", "": "Danube [1]"})
    run = Run()
    method = build_method("grounded+reader", model=scripted, retriever=ScriptedRetriever(PASSAGES), form=PHRASE)
    answer = await method.solve(QUESTION, run)
    draft, _, _ = scripted.prompts
    assert "Write only the answer" in draft
    assert "Not in these passages." in draft
    assert PHRASE.instruction not in draft
    assert [note.data["why"] for note in notes(run, "rounds ended")] == ["the answer is the same"]
    assert PHRASE.extract(answer.text) == "Danube"
    assert [cited.passage_id for cited in answer.citations] == [answer.shown[0].passage_id]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["Not in these passages.", "Answer: Danube"], "Answer: Danube"),
        (["Answer: Danube", "Not in these passages."], "Answer: Danube"),
        (["Not in these passages.", "Not in these passages."], "Not in these passages."),
    ],
)
async def test_any_answer_is_better_than_none(said, expected):
    scripted = by_job({NAMES: "Danube", "": [sure(one, -0.1 - at) for at, one in enumerate(said)]})
    answer = await grounded(scripted, abstain=True, max_rounds=1, k=1).solve(QUESTION, Run())
    assert answer.text == expected


async def test_who_abstained_and_named_nothing_readable_searches_for_the_question():
    scripted, retriever = by_job({NAMES: "...", "": "Not in these passages."}), ScriptedRetriever(PASSAGES)
    await grounded(scripted, retriever, abstain=True, max_rounds=1).solve(QUESTION, Run())
    assert retriever.queries == [QUESTION, QUESTION]


def once(model: ScriptedModel, **settings) -> Grounded:
    """Grounded without rounds."""
    return grounded(model, max_rounds=0, **settings)


@pytest.mark.parametrize("quote", [False, True])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_without_rounds_it_asks_what_rag_asks(form: AnswerForm, quote: bool) -> None:
    plain, same = ScriptedModel(["Danube"]), ScriptedModel(["Danube"])
    retriever = ScriptedRetriever(PASSAGES)
    await RAG(model=plain, retriever=retriever, form=form, k=3, quote=quote).solve(QUESTION, Run())
    await once(same, form=form, quote=quote).solve(QUESTION, Run())
    assert same.prompts == plain.prompts


@pytest.mark.parametrize("form", [PHRASE, TEXT, NUMBER, PROGRAM])
async def test_quotes_and_phrases_are_asked_for_where_the_form_allows_them(form: AnswerForm) -> None:
    prompts = []
    for settings in ({"quote": True}, {"brief": True}, {"abstain": True}):
        model = ScriptedModel(["Danube"])
        await once(model, form=form, **settings).solve(QUESTION, Run())
        prompts += model.prompts
    quoted, brief, abstaining = prompts
    free = form in (PHRASE, TEXT)
    assert ("First copy the sentences" in quoted) == free
    assert quoted.endswith(form.instruction if free else form.short)
    assert ("Write only the answer" in brief) == free
    assert brief.endswith(form.short) != free
    assert abstaining.endswith(ABSTENTION)


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


@pytest.mark.parametrize("method", [RAG, Grounded])
async def test_a_reply_of_nothing_but_markers_is_asked_again_without_them(method: type[RAG | Grounded]) -> None:
    model = ScriptedModel(["[1]", "The Danube is longer.", "Danube", "The Danube is longer."])
    answer = await method(model=model, retriever=ScriptedRetriever(PASSAGES), k=3).solve(QUESTION, Run())
    assert answer.text == "The Danube is longer."
    first, second, *_ = model.prompts
    assert "square brackets" in first
    assert "square brackets" not in second
    assert second.partition("Answer the question")[0] == first.partition("Answer the question")[0]


VIENNA = ["The Danube flows through Vienna and Budapest.", "Founded in 1889."]


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("Which river flows through Vienna?", 1 / 5),  # river; flows; Vienna counts 3
        ("Which river flows through Prague?", 4 / 5),
        ("which river flows through prague?", None),  # no name, so nothing is said
        ("Who was the founder in 1889?", 0.0),  # an ending does not count
        ("Who was the founder in 1890?", 3 / 4),
        ("Who was it?", None),
        ("", None),
        ("Vienna's river", None),  # the first word's capital makes no name
        ("Is Vienna's river long?", 2 / 5),  # s is no word
    ],
)
def test_names_and_numbers_count_three_times(question: str, share: float | None) -> None:
    assert words_lacking(question, VIENNA) == (share if share is None else pytest.approx(share))


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=4), st.text(max_size=80))
def test_it_is_a_share_that_more_text_never_raises(question: str, texts: list[str], more: str) -> None:
    share = words_lacking(f"{question} 1889", texts)
    assert share is not None
    assert 0.0 <= share <= 1.0
    assert (words_lacking(f"{question} 1889", [*texts, more]) or 0.0) <= share + 1e-12
    assert words_lacking(f"{question} 1889", [*texts, question, "1889"]) == 0.0
