"""Questions of several steps: how passages are linked, what is kept, and the file for a person."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.answers import ABSTENTION
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, ContextLengthExceeded, ModelError, ParseError
from reground.core.evidence import Passage
from reground.core.journal import MemoryJournal
from reground.core.language import Message, Sampling
from reground.core.run import Run
from reground.evaluation.tasks import load_task
from reground.models.scripted import ScriptedModel
from reground.proposing import (
    Pair,
    Proposal,
    Proposed,
    candidates,
    flaw,
    linked_pairs,
    open_proposals,
    propose,
    read_proposal,
)
from reground.retrieval.chunking import document_ids
from reground.retrieval.scripted import ScriptedRetriever

RIVER = Passage(id="vistula.md", title="Vistula", text="It is long. It flows into the Baltic Sea.")
PERSON = Passage(id="curie.md", title="Marie Curie", text="Marie Curie was born by the Vistula.")


def passage(id: str, text: str, title: str = "") -> Passage:
    return Passage(id=id, title=title, text=text)


def test_a_passage_that_names_the_title_of_another_is_linked_to_its_first_piece() -> None:
    (pair,) = linked_pairs(
        [
            passage("curie.md", "She was born on the banks of the Vistula in 1867.", "Marie Curie"),
            passage("vistula.md#2", "It is long.", "Vistula (river)"),
            passage("vistula.md#1", "It flows into the Baltic Sea.", "Vistula (river)"),
        ],
        most=9,
    )
    assert (pair.link, *(each.id for each in pair.passages)) == ("Vistula (river)", "curie.md", "vistula.md#1")


def test_passages_that_share_a_rare_name_are_linked_and_what_begins_a_sentence_is_no_name() -> None:
    spring = "A poem about Ada Lovelace and Byron. During spring it rained; later it was dry, during the day."
    some = [
        passage("a.md", "During the war Ada Lovelace met Babbage. Later they wrote."),
        passage("b.md", spring),
        passage("c.md", "Nothing of note happened at Dover."),
    ]
    (pair,) = linked_pairs(some, most=9)
    assert (pair.link, {each.id for each in pair.passages}) == ("Ada Lovelace", {"a.md", "b.md"})


def test_writing_without_capitals_is_linked_by_rare_terms() -> None:
    texts = ("徳川家康は江戸幕府を開いた。", "日光東照宮には徳川家康がまつられている。", "カタカナの文章です。")
    (pair,) = linked_pairs([passage(f"{number}.md", text) for number, text in enumerate(texts)], most=9)
    assert pair.link == "徳川家康"


@pytest.mark.parametrize(
    "some",
    [
        [passage(f"{i}.md", f"In Paris met Person{i} Smith{i}. Also Anna{i} came.") for i in range(6)],
        [passage(f"{i}.md", f"Introduction\n\nit is about thing{i * 'x'}.", "Introduction") for i in range(2)],
        [passage(f"a.md#{i}", "Ada Lovelace met Charles Babbage.", "Computing") for i in (1, 2)],
    ],
    ids=["a name of many documents", "a title of several documents", "pieces of one document"],
)
def test_what_links_nothing(some: list[Passage]) -> None:
    assert linked_pairs(some, most=9) == []


names = st.sampled_from(["Ada Lovelace", "Charles Babbage", "Lord Byron", "Dover Castle", "Isaac Newton"])


@given(st.lists(st.lists(names, min_size=1, max_size=3), max_size=9), st.integers(0, 12), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_pair_is_of_two_documents_that_hold_the_link_and_nothing_is_used_up(
    some: list[list[str]], most: int, seed: int
) -> None:
    passages = [
        passage(f"{i}.md", f"Then {' and '.join(each)} came.", each[0] if i % 2 else "") for i, each in enumerate(some)
    ]
    pairs = linked_pairs(passages, most=most, seed=seed)
    assert len(pairs) <= most and pairs == linked_pairs(passages, most=most, seed=seed)
    used = Counter(each.id for pair in pairs for each in pair.passages)
    assert not used or max(used.values()) <= 3
    for pair in pairs:
        first, second = pair.passages
        assert document_ids(first.id)[-1] != document_ids(second.id)[-1]
        assert pair.link.casefold() in first.text.casefold()
        assert pair.link.casefold() in second.text.casefold() or pair.link == second.title
    both = Counter(frozenset(each.id for each in pair.passages) for pair in pairs)
    assert not both or max(both.values()) == 1


def pair(number: int = 0) -> Pair:
    first = PERSON.model_copy(update={"id": f"curie-{number}.md", "text": f"Nr {number}: {PERSON.text}"})
    return Pair(passages=(first, RIVER), link="Vistula")


async def proposed_from(*args: Any, **keywords: Any) -> Proposed:
    """What has come of all pairs."""
    return [Proposed(), *[each async for each in propose(*args, **keywords)]][-1]


def answering(
    question: str = "Into which sea flows water {n} {n} {n} {n} {n}?",
    answer: str = "Baltic Sea",
    both: str = "Answer: the Baltic Sea",
    alone: str = "Answer: Not in these passages.",
) -> ScriptedModel:
    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        prompt = messages[-1].content
        if "Write one question" in prompt:
            number = re.search(r"Nr (\d+):", prompt)
            return f"Question: {question.format(n=number and number[1])}\nAnswer: {answer}"
        return both if prompt.count("<passage ") == 2 else alone

    return ScriptedModel(script)


async def test_what_both_passages_give_and_neither_alone_is_kept() -> None:
    model, run = answering("Into which sea flows the river of person {n}?"), Run()
    (kept,) = (await proposed_from([pair(7)], model, run, count=1)).questions
    assert kept.model_dump() == {
        "id": "q001",
        "question": "Into which sea flows the river of person 7?",
        "answer": "Baltic Sea",
        "passages": ("curie-7.md", "vistula.md"),
        "link": "Vistula",
        "evidence": ("Nr 7: Marie Curie was born by the Vistula.", "It flows into the Baltic Sea."),
        "metadata": {"kind": "two"},
    }
    assert [step.name for step in run.steps] == ["write", "both", "alone", "alone"]
    assert "Baltic" in model.prompts[2], "the passage with the answer is asked about first"
    assert "Marie Curie" not in model.prompts[2]


async def test_questions_of_one_passage_and_of_none_are_kept_when_the_model_answers_so() -> None:
    some = [passage(f"{name}.md", f"{name} is 9 km long.", name) for name in ("Como", "Garda", "Iseo", "Lugano")]
    pairs = candidates(some, ["one", "two", "none"], most=8)
    assert [each.kind for each in pairs] == ["one", "none"] * 4 and all(len(each.passages) == 1 for each in pairs)

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        prompt = messages[-1].content
        name = re.findall(r"(\w+) is 9 km", prompt)[0]
        if "Write one question" in prompt:
            what, answer = ("deep", "unknown") if "does not answer" in prompt else ("long", "9 km")
            return f"Question: How {what} is {name}?\nAnswer: {answer}"
        is_told = "deep" not in prompt or ("40 m" in prompt and "deep is Como" in prompt)
        return "Answer: 9 km" if is_told else f"Answer: {ABSTENTION}"

    everything = ScriptedRetriever([*some, passage("more.md", "Como is 9 km long and 40 m from top to bottom.")])
    proposed = await proposed_from(pairs, ScriptedModel(script), Run(), count=8, retriever=everything, concurrency=1)
    kinds = Counter(each.metadata["kind"] for each in proposed.questions)
    assert kinds["one"] == 4 and kinds["none"] == 4 - proposed.dropped.total() < 4
    assert {each.answer for each in proposed.questions} == {"9 km", ABSTENTION}
    assert all((each.answer == ABSTENTION) == (each.passages == ()) for each in proposed.questions)


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
    proposed = await proposed_from([pair()], model, Run(), count=1)
    assert (proposed.questions, dict(proposed.dropped), proposed.tried) == ([], {why: 1}, 1)
    assert len(model.calls) == calls


async def test_near_repeats_are_dropped() -> None:
    model = answering("Into which sea flows the river of Marie Curie's birthplace?")
    proposed = await proposed_from([pair(i) for i in range(3)], model, Run(), count=3)
    assert (len(proposed.questions), dict(proposed.dropped)) == (1, {"much like another question": 2})


async def test_what_is_kept_depends_neither_on_how_many_work_at_once_nor_on_an_end_between() -> None:
    pairs, journal, left = [pair(i) for i in range(5)], MemoryJournal(), 6

    def failing(messages: Sequence[Message], sampling: Sampling) -> str | Exception:
        nonlocal left
        left -= 1
        return ModelError("the server is gone") if left < 0 else answering()._one(messages, sampling).text

    with pytest.raises(ModelError, match="gone"):
        await proposed_from(pairs, ScriptedModel(failing), Run(journal=journal), count=3, concurrency=1)
    again = answering()
    resumed = await proposed_from(pairs, again, Run(journal=journal), count=3, concurrency=1)
    assert len(again.calls) == 12 - 6, "what was recorded is not asked again"
    other = await proposed_from(pairs, answering(), Run(), count=3, concurrency=4)
    assert [each.id for each in resumed.questions] == ["q001", "q002", "q003"]
    assert resumed.questions == other.questions


async def test_the_budget_is_for_all_questions_together() -> None:
    run = Run(journal=MemoryJournal(), budget=Budget(calls=6))
    proposed = await proposed_from([pair(i) for i in range(3)], answering(), run, count=3, concurrency=1)
    assert (len(proposed.questions), proposed.stopped, proposed.tried) == (1, "calls", 1)


def test_a_proposal_is_read_from_the_forms_that_models_write() -> None:
    for reply in (
        "Question: Who was it?\nAnswer: Ada",
        "**Question:** Who was it? **Answer:** Ada",
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


def test_an_answer_must_stand_in_a_passage_in_any_writing() -> None:
    assert flaw("Which sea?", "Baltic Sea", [PERSON, RIVER]) is None
    assert flaw("Which sea?", "Baltic Seas", [PERSON, RIVER]) == "the answer stands in no passage"
    assert flaw("Is it?", "yes", [passage("a", "yes it is")]) == "the answer stands in no passage"
    assert flaw("Which one?", "江戸幕府", [passage("a", "徳川家康は江戸幕府を開いた。")]) is None


def proposal(number: int) -> Proposal:
    passages, evidence = ("a.md#1", "b.md"), ("one", "two")
    question = f"Größe {number}?"
    return Proposal(
        id=f"q{number:03}", question=question, answer=str(number), passages=passages, link="x", evidence=evidence
    )


def opened(path: Path, *proposals: int, fresh: bool = False) -> Path:
    """Writes proposals if there are any, and gives the journal."""
    with open_proposals(path, fresh=fresh) as (journal, write):
        if proposals:
            write(list(map(proposal, proposals)))
        return journal


def test_the_file_can_be_read_by_people_and_given_to_compare(tmp_path: Path) -> None:
    opened(file := tmp_path / "questions.jsonl", 1, 2)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert list(json.loads(lines[1])) == ["id", "question", "answer", "passages", "link", "evidence", "metadata"]
    assert "Größe 1?" in lines[0]
    one, _ = load_task(f"questions:{file}").examples()
    assert (one.id, one.golden_answers, one.metadata["gold_ids"]) == ("q001", ("1",), ["a.md#1", "b.md"])


def test_what_a_person_edited_is_never_replaced_and_an_end_between_two_writes_is_no_edit(tmp_path: Path) -> None:
    opened(file := tmp_path / "q.jsonl", 1)
    before = file.read_bytes()
    opened(file, 1, 2)
    file.write_bytes(before)  # as if the process had ended before the second write
    opened(file)
    file.write_bytes(before + b"\n")
    for fresh in (False, True):
        with pytest.raises(ConfigurationError, match="was edited"):
            opened(file, fresh=fresh)
    (tmp_path / "theirs.jsonl").write_text("mine")
    with pytest.raises(ConfigurationError, match="not of this command"):
        opened(tmp_path / "theirs.jsonl")


def test_one_process_at_a_time_writes_the_file_and_a_fresh_start_forgets_what_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    with open_proposals(file) as (journal, _):
        journal.write_text("in use")
        with pytest.raises(ConfigurationError, match=r"another process is writing .*q\.jsonl"):
            opened(file, fresh=True)
        assert journal.exists()
    assert opened(file).exists() and not opened(file, fresh=True).exists()
