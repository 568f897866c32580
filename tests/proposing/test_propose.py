from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from reground.core.budget import Budget
from reground.core.errors import ContextLengthExceeded, ModelError, ParseError
from reground.core.evidence import Passage
from reground.core.journal import MemoryJournal, SqliteJournal
from reground.core.language import Message, Sampling
from reground.core.run import Run
from reground.models.scripted import ScriptedModel
from reground.proposing.checks import agrees, flaw, gives_away, holds, is_repeated, quote, read_proposal
from reground.proposing.pairs import Pair
from reground.proposing.propose import propose

RIVER = Passage(id="vistula.md", title="Vistula", text="It is long. It flows into the Baltic Sea.")
PERSON = Passage(id="curie.md", title="Marie Curie", text="Marie Curie was born by the Vistula.")


def pair(number: int = 0) -> Pair:
    first = PERSON.model_copy(update={"id": f"curie-{number}.md", "text": f"Nr {number}: {PERSON.text}"})
    return Pair(first=first, second=RIVER, link="Vistula", kind="title")


def number_of(prompt: str) -> str:
    found = re.search(r"Nr (\d+):|of person (\d+)", prompt)
    return (found[1] or found[2]) if found else "0"


def answering(
    question: str = "Into which sea flows the river of person {n}?",
    answer: str = "Baltic Sea",
    both: str = "Answer: the Baltic Sea",
    alone: str = "Answer: Not in these passages.",
) -> ScriptedModel:
    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        prompt = messages[-1].content
        if "Write one question" in prompt:
            return f"Question: {question.format(n=number_of(prompt))}\nAnswer: {answer}"
        return both if prompt.count("<passage ") == 2 else alone

    return ScriptedModel(script)


async def test_what_both_passages_give_and_neither_alone_is_kept() -> None:
    model = answering()
    run = Run()
    found = await propose([pair(7)], model, run, count=1)
    (kept,) = found.kept
    assert kept.model_dump() == {
        "id": "q001",
        "question": "Into which sea flows the river of person 7?",
        "answer": "Baltic Sea",
        "passages": ("curie-7.md", "vistula.md"),
        "link": "Vistula",
        "evidence": ("Nr 7: Marie Curie was born by the Vistula.", "It flows into the Baltic Sea."),
    }
    assert [step.name for step in run.steps] == ["write", "both", "alone", "alone"]
    assert "Baltic" in model.prompts[2], "the passage with the answer is asked about first"
    assert "Marie Curie" not in model.prompts[2]


@pytest.mark.parametrize(
    ("model", "why", "calls"),
    [
        (answering(both="Answer: North Sea"), "not answered from both passages", 2),
        (answering(alone="It says so. Answer: into the Baltic Sea"), "answered from one passage alone", 3),
        (answering(alone="Answer: somewhere in the Baltic Sea, I think"), "answered from one passage alone", 3),
        (answering(answer="Black Sea"), "the answer stands in no passage", 1),
        (answering(question="Is the Baltic Sea where it flows?"), "the question holds the answer", 1),
        (answering(question="What does passage 2 say?"), "the question speaks of passages", 1),
        (answering(question="Tell me of {n}"), "not in the form asked for", 2),
        (ScriptedModel([ContextLengthExceeded("too long")]), "the passages are too long for the model", 1),
    ],
)
async def test_what_fails_a_check_is_dropped_with_the_reason(model: ScriptedModel, why: str, calls: int) -> None:
    found = await propose([pair()], model, Run(), count=1)
    assert (found.kept, dict(found.dropped), found.tried) == ([], {why: 1}, 1)
    assert len(model.calls) == calls


async def test_near_repeats_are_dropped_and_no_more_than_wanted_are_kept() -> None:
    same = answering(question="Into which sea flows the river of Marie Curie's birthplace?")
    found = await propose([pair(i) for i in range(3)], same, Run(), count=3)
    assert (len(found.kept), dict(found.dropped)) == (1, {"much like another question": 2})
    texts = ["Which sea is it?", "Who was born by the river?", "Where does it end?", "What is near?"]
    model = answering(question="{n}")
    model = ScriptedModel(
        lambda messages, sampling: (
            f"Question: {texts[int(number_of(messages[-1].content))]}\nAnswer: Baltic Sea"
            if "Write one" in messages[-1].content
            else "Answer: Baltic Sea"
            if messages[-1].content.count("<passage ") == 2
            else "Answer: unknown"
        )
    )
    found = await propose([pair(i) for i in range(4)], model, Run(), count=2, concurrency=4)
    assert [each.id for each in found.kept] == ["q001", "q002"]


async def test_what_is_kept_does_not_depend_on_how_many_work_at_once() -> None:
    async def kept(concurrency: int) -> list[str]:
        pairs = [pair(i) for i in range(5)]
        model = answering(question="Into which sea flows water {n} {n} {n} {n} {n}?")
        found = await propose(pairs, model, Run(), count=3, concurrency=concurrency)
        return [each.question for each in found.kept]

    assert await kept(1) == await kept(2) == await kept(4)


async def test_a_second_run_replays_and_a_broken_one_goes_on(tmp_path: Path) -> None:
    pairs = [pair(i) for i in range(3)]
    model = answering(question="Into which sea flows water {n} {n} {n} {n} {n}?")
    left = 6

    def failing(messages: Sequence[Message], sampling: Sampling) -> str | Exception:
        nonlocal left
        left -= 1
        return ModelError("the server is gone") if left < 0 else model._one(messages, sampling).text

    journal = SqliteJournal(tmp_path / "j.sqlite")
    with pytest.raises(ModelError, match="gone"):
        await propose(pairs, ScriptedModel(failing), Run(journal=journal), count=3, concurrency=1)
    journal.close()
    journal = SqliteJournal(tmp_path / "j.sqlite")
    again = ScriptedModel(lambda messages, sampling: model._one(messages, sampling))
    found = await propose(pairs, again, Run(journal=journal), count=3, concurrency=1)
    assert len(found.kept) == 3
    assert len(again.calls) == 12 - 6, "what was recorded is not asked again"
    nobody = ScriptedModel([])
    same = await propose(pairs, nobody, Run(journal=journal), count=3, concurrency=3)
    journal.close()
    assert same.kept == found.kept


async def test_the_budget_is_for_all_questions_together() -> None:
    found = await propose(
        [pair(i) for i in range(3)],
        answering(question="Into which sea flows water {n} {n} {n} {n} {n}?"),
        Run(journal=MemoryJournal(), budget=Budget(calls=6)),
        count=3,
        concurrency=1,
    )
    assert (len(found.kept), found.stopped, found.tried) == (1, "calls", 1)


def test_a_proposal_is_read_from_the_forms_that_models_write() -> None:
    for reply in (
        "Question: Who was it?\nAnswer: Ada",
        "Sure!\n\n**Question:** Who was it?\n**Answer:** Ada.",
        "- question: Who was it?\n- ANSWER: 'Ada'\nAnswer: Bob",
        "Question：Who was it?\n**Answer：** Ada",
    ):
        assert read_proposal(reply) == ("Who was it?", "Ada")
    for reply, why in (
        ("Who was it?", "two lines"),
        ("Question: Name it.\nAnswer: Ada", "question mark"),
        (f"Question: Who?\nAnswer: {'very ' * 13}", "at most 12 words"),
        (f"Question: {'x' * 500}?\nAnswer: a", "one short sentence"),
    ):
        with pytest.raises(ParseError, match=why):
            read_proposal(reply)


def test_answers_are_compared_as_the_tasks_compare_them() -> None:
    assert agrees("the Baltic", "Baltic Sea")
    assert not agrees("the North Sea", "Baltic Sea") and not agrees("", "Baltic Sea")
    assert gives_away("It is the Baltic Sea, which is cold and shallow and wide", "Baltic Sea")
    assert not gives_away("Not in these passages.", "Baltic Sea")
    assert is_repeated("Who wrote the first program?", ["Who wrote the very first program?"])
    assert not is_repeated("Who wrote the first program?", ["When was it?"])


def test_an_answer_must_stand_in_a_passage_in_any_writing() -> None:
    assert flaw("Which sea?", "Baltic Sea", [PERSON, RIVER]) is None
    assert flaw("Which sea?", "Baltic Seas", [PERSON, RIVER]) == "the answer stands in no passage"
    assert flaw("Is it?", "yes", [Passage(id="a", text="yes it is")]) == "the answer stands in no passage"
    assert holds("徳川家康は江戸幕府を開いた。", "江戸幕府")
    assert not holds("unknown", "know")
    assert quote(RIVER, "nothing") == "It is long."
    assert len(quote(Passage(id="a", text="word " * 500), "x")) < 310
