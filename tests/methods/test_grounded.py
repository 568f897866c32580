"""Grounded: what each call reads, which answer stays, and when the rounds end."""

from __future__ import annotations

import pytest

from reground.app.catalogue import build_method
from reground.core.answers import ABSTENTION, PHRASE, PLAN, PROGRAM, TEXT
from reground.core.budget import Budget, estimate_tokens
from reground.core.evidence import Passage
from reground.core.language import Reply, TokenLogprob, Usage
from reground.core.method import solve
from reground.core.run import Run
from reground.evaluation.scaling import scaled
from reground.methods.grounded import Grounded
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, Failing, by_job, effects, notes, queries

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


async def test_passages_that_brought_no_better_answer_support_none():
    for logprob, markers in ((-0.9, [1]), (-0.1, [1, 2])):
        scripted = ScriptedModel(replies([("Seine", -0.5), ("Danube", logprob)]))
        answer = await grounded(scripted, k=1, max_rounds=1).solve(QUESTION, Run())
        assert [passage.marker for passage in answer.shown] == markers


async def test_without_log_probabilities_the_later_answer_goes_on_and_a_note_says_so():
    scripted, run = ScriptedModel(replies([("Seine", None), ("Danube", None), ("Danube", None)])), Run()
    answer = await grounded(scripted, k=1).solve(QUESTION, run)
    assert answer.text == "Danube"
    assert len(notes(run, "refined answer taken")) == 1


@pytest.mark.parametrize("form", [TEXT, PLAN, PROGRAM])
async def test_where_no_answer_can_stand_alone_reasons_are_asked_for(form):
    scripted = ScriptedModel(["The Danube is longer."] * 5)
    await grounded(scripted, form=form).solve(QUESTION, Run())
    assert form.instruction in scripted.prompts[0]


async def test_rounds_end_where_nothing_is_found():
    run, scripted = Run(), by_job({NAMES: "Danube", "": "Answer: Seine"})
    answer = await grounded(scripted, retriever=Failing(nothing_for="Danube")).solve(QUESTION, run)
    assert answer.text == "Answer: Seine"
    assert [note.data["why"] for note in notes(run, "rounds ended")] == ["nothing was retrieved"]


class Metered(ScriptedModel):
    """Names and another answer each time, paid for as prompts are estimated."""

    def __init__(self) -> None:
        count = iter(range(99))

        def say(messages, sampling):
            text = "Danube; Rhine" if NAMES in messages[-1].content else f"Answer: {next(count)}"
            return Reply(text=text, usage=Usage(calls=1, prompt=estimate_tokens(tuple(messages)), completion=8))

        super().__init__(say)
        self.say = say

    async def generate(self, messages, sampling, /):
        self.calls.append((tuple(messages), sampling))
        return [self.say(messages, sampling)]


@pytest.mark.parametrize("tokens", [1500, 2400, 4000, 8000, 12000])
async def test_whatever_the_length_of_passages_every_round_fits(tokens):
    method = scaled(grounded(Metered(), ScriptedRetriever(LONG), max_tokens=256), tokens)
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


async def test_the_same_brief_answer_from_another_passage_ends_the_rounds():
    scripted = by_job({NAMES: "Danube", "": ["Danube [1]", "Danube [2][1]"]})
    run = Run()
    await grounded(scripted, brief=True, form=TEXT, k=1).solve(QUESTION, run)
    assert [note.data["why"] for note in notes(run, "rounds ended")] == ["the answer is the same"]


@pytest.mark.parametrize(
    ("draft", "calls"),
    [(sure("Danube", -0.1), 1), (sure("Danube", -0.9), 3), (sure("Danube", None), 3), (sure(ABSTENTION, -0.1), 3)],
)
async def test_a_sure_first_answer_needs_no_second_look(draft: Reply, calls: int) -> None:
    scripted = by_job({NAMES: "Rhine", "": [draft, "Answer: Rhine"]})
    await grounded(scripted, sure=-0.5, abstain=True, max_rounds=1, k=1).solve(QUESTION, Run())
    assert len(scripted.prompts) == calls
