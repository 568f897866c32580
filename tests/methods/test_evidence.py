import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import NUMBER, PHRASE, PLAN, PROGRAM, TEXT, Thought
from reground.core.budget import Budget
from reground.core.evidence import Passage
from reground.core.language import tokens_of
from reground.core.run import Run
from reground.methods.shared.evidence import LEAST_PASSAGE, Evidence, find
from reground.methods.shared.prompts import render
from tests.methods.helpers import PASSAGES, Failing, notes

ids = st.lists(st.sampled_from("abcde"), max_size=8)


@given(st.lists(ids, max_size=5))
def test_a_passage_keeps_its_number(batches):
    evidence = Evidence()
    for batch in batches:
        markers = evidence.add(Passage(id=key, text=key) for key in batch)
        assert [evidence.passages[m - 1].id for m in markers] == list(dict.fromkeys(batch))
    assert len({p.id for p in evidence.passages}) == len(evidence.passages)


def five() -> Evidence:
    evidence = Evidence()
    evidence.add([*PASSAGES, Passage(id="elbe", title="Elbe", text="The Elbe flows through Dresden.")])
    return evidence


def test_an_answer_cites_what_its_markers_name_and_holds_apart_what_it_was_shown():
    answer = five().answer("Long [2], short [4] and [2].", Run(), TEXT, sources=[1, 2])
    assert [passage.marker for passage in answer.citations] == [2, 4]
    assert [passage.marker for passage in answer.shown] == [2, 4, 1]
    assert answer.citations[0].passage_id == "danube"
    assert answer.citations[0].quote.startswith("The Danube is 2850 km")


def test_a_marker_without_a_passage_is_removed_from_text_and_steps_and_noted_once():
    evidence, run = five(), Run()
    for _ in range(2):
        answer = evidence.answer("The Danube [2][7].", run, TEXT, steps=[Thought(text="It is long [9].")])
    assert answer.text == "The Danube [2]."
    assert answer.steps[0].text == "It is long."
    assert [note.data["markers"] for note in notes(run, "unknown markers removed")] == [[7], [9]]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (TEXT, "The code is `a[7]`, built in [2019]."),
        (TEXT, "[7]"),
        (PHRASE, "The factors.\nAnswer: [3, 7]"),
        (NUMBER, "Step [7] gives\nAnswer: 12"),
        (PROGRAM, "def f(rows):\n    return rows[7]"),
        (PLAN, "STEP 1 takes [7] logs"),
    ],
)
def test_what_is_no_marker_or_is_the_answer_itself_stays(form, text):
    run = Run()
    answer = five().answer(text, run, form)
    assert (answer.text, run.steps) == (text, ())


def test_a_short_answer_loses_a_made_up_marker_and_nothing_else():
    assert five().answer("Answer: the Danube [7]", Run(), PHRASE).text == "Answer: the Danube"


TEMPLATE = "{passages}\n\nQuestion: {question}"


def with_room(tokens: int | None) -> Run:
    return Run(budget=Budget(tokens=tokens))


@given(
    words=st.lists(st.integers(1, 120), min_size=1, max_size=6),
    tokens=st.integers(1, 150),
    room=st.integers(100, 1200),
    uses=st.integers(1, 3),
)
def test_a_prompt_with_passages_fits_and_holds_as_much_as_it_can(words, tokens, room, uses):
    evidence = Evidence()
    markers = evidence.add(Passage(id=str(i), text="river " * count) for i, count in enumerate(words))
    parts = {"question": "Which?"}
    prompt = evidence.fill(TEMPLATE, parts, markers, with_room(room), tokens=tokens, reply=20, uses=uses)
    shown = tokens_of(evidence.show(evidence.in_prompt, tokens=tokens))
    left = int(room / uses) - 20 - tokens_of(render(TEMPLATE, passages="", **parts))
    assert evidence.in_prompt == markers[: len(evidence.in_prompt)]
    assert len(evidence.in_prompt) >= 1
    assert shown <= left or len(evidence.in_prompt) == 1
    if len(evidence.in_prompt) < len(markers):
        least = Evidence()
        least.add(evidence.passages)
        more = markers[: len(evidence.in_prompt) + 1]
        assert tokens_of(least.show(more, tokens=min(tokens, LEAST_PASSAGE))) > left, "another passage fits"
    assert prompt.startswith(evidence.show(evidence.in_prompt, tokens=tokens))


def test_passages_keep_their_cut_so_that_prompts_begin_alike():
    evidence, parts = Evidence(), {"question": "Which?"}
    first = evidence.add(Passage(id=str(i), text="river " * 300) for i in range(2))
    short = evidence.fill(TEMPLATE, parts, first, with_room(500), tokens=400)
    both = [*first, *evidence.add([Passage(id="2", text="sea " * 300)])]
    long = evidence.fill(TEMPLATE, parts, both, with_room(5000), tokens=400)
    assert long.startswith(short.removesuffix("\n\nQuestion: Which?"))


def test_without_a_limit_passages_are_cut_at_their_own_only():
    evidence = Evidence()
    markers = evidence.add(PASSAGES)
    prompt = evidence.fill(TEMPLATE, {"question": "Which?"}, markers, Run(), tokens=100)
    assert prompt == f"{evidence.show(markers, tokens=100)}\n\nQuestion: Which?"
    assert evidence.in_prompt == markers
    assert "no passages were found" in evidence.fill(TEMPLATE, {"question": "Which?"}, [], with_room(100), tokens=9)


async def test_a_failed_query_is_noted_and_finds_nothing():
    run = Run()
    assert await find(run, Failing(on="boom"), "boom now", k=2) == []
    (note,) = notes(run, "retrieval failed")
    assert note.data == {"query": "boom now", "why": "the index is on fire"}
