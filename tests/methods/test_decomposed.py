"""Decomposed: how a question is divided, in which order its parts are looked up, what the answer is written from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import NUMBER, PHRASE, TEXT, AnswerForm
from reground.core.budget import Budget
from reground.core.run import Run, solve
from reground.core.trajectory import GenerateStep
from reground.methods.baselines import RAG
from reground.methods.decomposed import Decomposed, read_parts, references
from reground.methods.shared.prompts import examples_of
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, Say, by_job, effects, notes, prompts, queries

QUESTION = "Is the river of Vienna longer than that of Cologne?"
CHAIN = "Which river flows through Vienna?\nHow long is #1?\nHow long is the Rhine?"
READ = {"through Vienna?": "The Danube.", "The Danube?": "2850 km", "the Rhine?": "1230 km"}


def decomposed(scripted: ScriptedModel, form: AnswerForm = PHRASE, **settings: int) -> Decomposed:
    return Decomposed(model=scripted, retriever=ScriptedRetriever(PASSAGES), form=form, **settings)


def model(parts: str, answer: str = "yes") -> ScriptedModel:
    jobs: dict[str, Say] = {f"{mark}\nAnswer in a few words": said for mark, said in READ.items()}
    asked_alone = {"\nAnswer in a few words": "unknown", "with the help of the passages": answer}
    return by_job({**jobs, **asked_alone, "Notes:": answer, "": parts})


async def test_parts_wait_for_those_they_need_and_the_answer_is_written_from_all() -> None:
    run = Run()
    answer = await decomposed(model(CHAIN), k=1).solve(QUESTION, run)
    first, then = [("", "retrieve")] * 2 + [("", "read")] * 2, [("", "retrieve"), ("", "read")]
    assert effects(run) == [("", "divide"), *first, *then, ("", "answer")]
    assert queries(run) == ["Which river flows through Vienna?", "How long is the Rhine?", "How long is The Danube?"]
    (last,) = prompts(run, "answer")
    assert last == (
        "Notes:\nWhich river flows through Vienna? The Danube\nHow long is The Danube? 2850 km\n"
        f"How long is the Rhine? 1230 km\n\nQuestion: {QUESTION}"
    )
    assert answer.text == "yes"
    assert (answer.steps[1].query, answer.steps[1].text) == ("How long is The Danube?", "2850 km")


async def test_every_part_is_read_from_its_own_passages() -> None:
    run = Run()
    await decomposed(model(CHAIN), k=1).solve(QUESTION, run)
    assert [prompt.count("<passage ") for prompt in prompts(run, "read")] == [1, 1, 1]
    assert "<passage" not in prompts(run, "answer")[0]


@pytest.mark.parametrize("said", ["", "Which is longer?", "How long is #1?\nHow long is the Rhine?", "#2"])
async def test_a_question_that_is_not_divided_is_read_as_rag_reads_it(said: str) -> None:
    run, plain = Run(), Run()
    answer = await decomposed(model(said), whole_k=2).solve(QUESTION, run)
    assert effects(run) == [("", "divide"), ("", "retrieve"), ("", "answer")]
    rag = RAG(model=model(said), retriever=ScriptedRetriever(PASSAGES), form=PHRASE, k=2)
    assert answer == await rag.solve(QUESTION, plain)
    assert (queries(run), prompts(run, "answer")) == (queries(plain), prompts(plain, "answer"))


async def test_examples_are_earlier_turns_and_short_answers_have_some_at_the_end_too() -> None:
    for form, shown in ((PHRASE, len(examples_of("decomposed")["concluded"])), (TEXT, 0), (NUMBER, 0)):
        run = Run()
        await decomposed(model(CHAIN), form).solve(QUESTION, run)
        calls = {step.name: step.messages for step in run.steps if isinstance(step, GenerateStep)}
        assert len(calls["divide"]) == 2 * len(examples_of("decomposed")["divided"]) + 2
        assert len(calls["answer"]) == 2 * shown + 2
        assert calls["answer"][0].role == "system"


async def test_prose_cites_the_passages_of_the_parts() -> None:
    run = Run()
    answer = await decomposed(model(CHAIN, "The Danube is 2850 km long [1], so yes."), TEXT, k=1).solve(QUESTION, run)
    assert "Which river flows through Vienna? The Danube [1]" in prompts(run, "answer")[0]
    assert "How long is The Danube?" in queries(run), "a source is no part of a query"
    assert [citation.marker for citation in answer.citations] == [1]


@pytest.mark.parametrize(("tokens", "looked_up"), [(600, 0), (900, 0), (1200, 3)])
async def test_it_answers_from_what_a_budget_lets_it_look_up(tokens: int, looked_up: int) -> None:
    run = Run(budget=Budget(tokens=tokens))
    solved = await solve(decomposed(model(CHAIN)), QUESTION, run, id="q", name="decomposed")
    assert solved.trajectory.stopped is None
    assert solved.trajectory.answer is not None
    assert solved.trajectory.answer.text == "yes"
    assert len(solved.trajectory.answer.steps) == looked_up
    assert bool(looked_up) != bool(notes(run, "ended early"))
    assert bool(looked_up) != (queries(run) == [QUESTION]), "with too little for a division, RAG is what is left"


async def test_what_was_read_counts_where_a_budget_has_no_call_left_for_another_part() -> None:
    parts = "How long is the Danube?\nHow long is the Rhine?"
    run = Run(budget=Budget(calls=3))
    scripted = by_job({"the Danube?\nAnswer in a few words": "2850 km", "Notes:": "yes", "": parts})
    answer = await decomposed(scripted, k=1).solve(QUESTION, run)
    assert prompts(run, "answer")[0].startswith("Notes:\nHow long is the Danube? 2850 km\n\nQuestion:")
    assert [step.text for step in answer.steps] == ["2850 km"]
    assert [each.passage_id for each in answer.shown] == ["danube"], "nobody read the other part's passage"


@given(st.text(alphabet="#12 a?.)\n-", max_size=60))
def test_parts_refer_only_to_earlier_ones(reply: str) -> None:
    for place, part in enumerate(read_parts(reply)):
        assert part == part.strip() != ""
        assert all(1 <= each <= place for each in references(part))


def test_the_examples_divide_as_they_are_read() -> None:
    for each in examples_of("decomposed")["divided"]:
        assert read_parts(each.answer) == each.answer.splitlines(), each.question


@pytest.mark.parametrize("head", ["", "1. ", "2) ", "- ", "(1) ", "**1.** ", "Question 1: ", "Q2: ", "• "])
def test_numbers_before_parts_are_left_out(head: str) -> None:
    assert read_parts(f"{head}Who wrote it?\n\n{head}When was #1 born?") == ["Who wrote it?", "When was #1 born?"]


@pytest.mark.parametrize(
    "reply",
    [
        "#1: Who wrote it?\n#2: When was #1 born?",
        "- #1 Who wrote it?\n- #2 When was #1 born?",
        "Who wrote it? #1\nWhen was #1 born? (#2)",
        "```\nWho wrote it?\nWhen was #1 born?\n```",
        "```text\nWho wrote it?\nWhen was #1 born?",
        "Who wrote it?\nAnswer: Emil Brandt\nWhen was #1 born?",
    ],
)
def test_a_parts_own_number_a_fence_and_an_answer_are_no_part(reply: str) -> None:
    assert read_parts(reply) == ["Who wrote it?", "When was #1 born?"]


@pytest.mark.parametrize("reply", ["Who is the father of #1", "#1 was born when?", "Who is #2?"])
def test_a_part_that_refers_to_itself_or_a_later_one_is_none(reply: str) -> None:
    assert read_parts(reply) == []


def test_neither_an_introduction_nor_an_option_is_a_part() -> None:
    listed = "Here are the simple questions:\n1. Which club plays at Oak Park?\n2. Who is the trainer of #1?"
    assert read_parts(listed) == ["Which club plays at Oak Park?", "Who is the trainer of #1?"]
    choice = "Which planet is the nearest to the sun?\nA. Venus\nB. Mercury"
    assert read_parts(choice, choice) == ["Which planet is the nearest to the sun?"]
