"""CR-Planner: the walk through its states, its choices and what is recorded of them, its ends and its limits."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reground.core.answers import PHRASE
from reground.core.budget import Budget
from reground.core.errors import ContextLengthExceeded
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run, solve
from reground.core.trajectory import Pair, RetrieveStep
from reground.evaluation.task import Example
from reground.evaluation.tasks.retrieval import Retrieval
from reground.methods.cr_planner import CRPlanner
from reground.methods.cr_planner.states import NOTHING, Observation, State
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import Failing, by_job, effects, notes, prompts, queries
from tests.methods.planner import (
    LOOK,
    QUERY,
    QUESTION,
    REASON,
    Scoring,
    Wanting,
    choices,
    critics,
    generator,
    goals,
    planner,
)


async def test_the_walk_reasons_queries_retrieves_and_ends_with_the_complete_answer() -> None:
    model = generator(
        reason=["The lengths are needed.", "The Danube has 2850 km [1].\nAnswer: the Danube"],
        query="length of the Danube",
    )
    run = Run()
    answer = await planner(model).solve(QUESTION, run)
    assert [name for _, name in effects(run) if name != "score"] == [
        *["subgoal", "reason", "rationale"],
        *["subgoal", "query", "query"],
        *["subgoal", "retrieve", "doc"],
        *["subgoal", "reason", "rationale"],
    ]
    assert goals(run) == ["REASON", "GENQUERY", "RETRIEVE", "REASON"]
    assert PHRASE.extract(answer.text) == "the Danube"
    assert [citation.passage_id for citation in answer.citations] == ["danube"]
    assert [(step.text, step.query, step.citations) for step in answer.steps] == [
        ("The lengths are needed.", "length of the Danube", (1,)),
        ("The Danube has 2850 km [1].\nAnswer: the Danube", None, ()),
    ]
    assert "2850 km" in prompts(run, "reason")[1]
    assert "The lengths are needed." in prompts(run, "query")[0]


async def test_the_sub_goal_critic_decides_the_way() -> None:
    run = Run()
    way = Wanting(QUERY, LOOK, REASON, REASON, QUERY, REASON, LOOK)
    model = generator(reason=[f"Thought {i}." for i in range(9)], query=["Danube", "Seine"])
    await planner(model, critics=critics(subgoal=way), max_steps=14).solve(QUESTION, run)
    assert goals(run) == ["GENQUERY", "RETRIEVE", "REASON", "REASON", "GENQUERY", "REASON", "RETRIEVE"]
    assert queries(run) == ["Danube", "Seine"]


async def test_each_kind_of_choice_goes_to_its_own_critic_with_its_own_context() -> None:
    asked = {kind: Wanting(name=kind) for kind in ("subgoal", "rationale", "query", "doc")}
    run = Run()
    model = generator(reason=[f"Thought {i}." for i in range(9)], query=[f"river {i}" for i in range(9)])
    await planner(model, critics=critics(**asked), candidates=2, max_steps=8).solve(QUESTION, run)
    for kind, critic in asked.items():
        recorded = choices(run, kind)
        assert [step.by for step in recorded] == [kind] * len(recorded)
        judged = [step for step in recorded if sum(c.discarded is None for c in step.candidates) > 1]
        assert judged
        for pairs, step in zip(critic.seen, judged, strict=True):
            live = [candidate for candidate in step.candidates if candidate.discarded is None]
            assert [(pair.context, pair.candidate) for pair in pairs] == [(step.context, c.text) for c in live]
            assert all(candidate.score is not None for candidate in live)
    assert "Thought 0." in asked["query"].seen[0][0].context
    assert "river 0" in asked["doc"].seen[0][0].context


async def test_the_candidate_of_the_highest_score_goes_on() -> None:
    said = ["A short one.", "The longest of all the thoughts.", "Another one here."]
    run, model = Run(), generator(reason=[*said, "x"], query=["a", "ab", "abc"])
    judges = {"rationale": len, "query": lambda text: -len(text), "doc": lambda text: float("Rhine" in text)}
    chosen_by = critics(**{kind: Scoring(score) for kind, score in judges.items()})
    await planner(model, candidates=3, critics=chosen_by, max_steps=6).solve(QUESTION, run)
    (rationale,), (query,), (doc,) = choices(run, "rationale"), choices(run, "query"), choices(run, "doc")
    assert (rationale.chosen, query.chosen) == (1, 0)
    assert [candidate.score for candidate in rationale.candidates] == [float(len(text)) for text in said]
    assert doc.candidates[doc.chosen or 0].data["passage"] == "rhine"
    assert rationale.why == "highest score"
    assert said[1] in prompts(run, "answer")[0]
    assert said[0] not in prompts(run, "answer")[0]
    assert "Rhine" in prompts(run, "answer")[0]
    assert "Seine is" not in prompts(run, "answer")[0]


async def test_candidates_that_say_nothing_the_same_or_what_was_said_are_discarded_with_the_reason() -> None:
    model = generator(reason=["First.", "first. ", "[END]", "FIRST.", "Second.", "  "])
    run = Run()
    await planner(model, candidates=3, retrieval=False, max_steps=4).solve(QUESTION, run)
    first, second = choices(run, "rationale")
    assert [c.discarded for c in first.candidates] == [None, "another candidate says the same", "it says nothing"]
    assert [c.discarded for c in second.candidates] == [
        "it repeats what was said before", None, "it says nothing"
    ]  # fmt: skip
    assert (first.chosen, second.chosen) == (0, 1)
    assert first.candidates[2].text == "[END]"


async def test_an_answer_from_the_documents_alone_is_asked_for_after_all_steps_without_the_plans_own() -> None:
    run = Run()
    model = by_job({
        "the next step of the reasoning": "The Seine is longer.\nAnswer: the Seine",
        "Write a search query": "length of the Danube",
        PHRASE.bare: "the Danube",
    })  # fmt: skip
    way = critics(subgoal=Wanting(QUERY, LOOK, REASON, REASON))
    answer = await planner(model, critics=way, conclude="documents", documents=2, max_steps=8).solve(QUESTION, run)
    (asked,) = prompts(run, "documents")
    assert answer.text == "the Danube"
    assert "The Danube is 2850 km long" in asked
    assert "the Seine is longer" not in asked.casefold()
    assert goals(run)[:3] == ["GENQUERY", "RETRIEVE", "REASON"]
    assert len(goals(run)) > 3, "a complete answer does not end the plan"
    assert len(choices(run, "doc")[0].candidates) == 2
    assert [step.text for step in answer.steps] == ["The Seine is longer.\nAnswer: the Seine"]
    assert [passage.title for passage in answer.shown] == ["Danube"]


async def test_where_all_rationales_repeat_the_planning_goes_on_with_another_sub_goal() -> None:
    run = Run()
    model = generator(reason=["One.", "one.", "The Danube has 2850 km.\nAnswer: the Danube"], query="river length")
    way = critics(subgoal=Wanting(REASON))
    answer = await planner(model, critics=way, max_steps=10).solve(QUESTION, run)
    assert goals(run) == ["REASON", "REASON", "GENQUERY", "REASON"]
    failed = choices(run, "rationale")[1]
    assert failed.chosen is None
    (note,) = notes(run, "sub-goal left")
    assert note.data == {"goal": "REASON", "why": "none of its candidates can go on"}
    third = choices(run, "subgoal")[2]
    assert {c.data["goal"]: c.discarded for c in third.candidates} == {
        "GENQUERY": None, "REASON": "it brought nothing new here", "RETRIEVE": "it cannot help here"
    }  # fmt: skip
    assert [step.text for step in answer.steps] == ["One.", "The Danube has 2850 km.\nAnswer: the Danube"]
    assert answer.steps[0].query == "river length"
    assert not notes(run, "planning ended")


async def test_without_a_usable_query_the_last_rationale_is_one_and_then_the_question() -> None:
    run = Run()
    way = Wanting(REASON, QUERY, LOOK, QUERY, LOOK, QUERY)
    model = generator(reason="The Danube matters.", query="?!")
    await planner(model, critics=critics(subgoal=way), max_steps=20).solve(QUESTION, run)
    assert queries(run) == ["The Danube matters.", QUESTION]
    assert len(notes(run, "query fell back")) == 2
    assert choices(run, "query")[0].candidates[0].discarded == "it says nothing"
    assert choices(run, "query")[-1].chosen is None
    assert notes(run, "planning ended")


@pytest.mark.parametrize("retriever", [Failing(on="river"), Failing(nothing_for="river"), ScriptedRetriever([])])
async def test_a_retrieval_that_brings_nothing_uses_its_query_up_and_the_walk_goes_on(retriever: object) -> None:
    run = Run()
    model = generator(reason=["One.", "Answer: done"])
    answer = await planner(model, retriever=retriever).solve(QUESTION, run)
    assert answer.text == "Answer: done"
    assert choices(run, "doc")[0].candidates[0].text == NOTHING
    assert NOTHING in prompts(run, "reason")[1]
    assert answer.citations == ()


async def test_the_last_step_forces_the_answer() -> None:
    for most, rationales in ((2, 1), (4, 2), (5, 2), (6, 3)):
        run = Run()
        model = generator(reason=[f"Thought {i}." for i in range(9)])
        answer = await planner(model, retrieval=False, max_steps=most).solve(QUESTION, run)
        assert answer.text == "Answer: forced"
        assert len(choices(run, "rationale")) == rationales
        assert len(choices(run)) <= most
        (asked,) = prompts(run, "answer")
        assert f"Thought {rationales - 1}." in asked
        assert PHRASE.bare in asked
    empty = Run()
    answer = await planner(generator(answer=" "), retrieval=False, max_steps=2).solve(QUESTION, empty)
    assert answer.text == "A step."
    assert notes(empty, "answer empty")


def documents(count: int) -> ScriptedRetriever:
    return ScriptedRetriever([Passage(id=f"d{i}", text=f"river {'x ' * i}") for i in range(count)])


async def test_a_ranking_is_the_last_retrieval_of_ten_with_the_query_that_the_reasoning_ends_in() -> None:
    run = Run()
    model = generator(reason=["Think of water.", "Answer: river bed"], query="river")
    answer = await planner(model, retriever=documents(30), answer="ranking").solve(QUESTION, run)
    last = [step for step in run.steps if isinstance(step, RetrieveStep)][-1]
    assert (last.query, last.k, len(last.passages)) == ("river bed", 10, 10)
    assert [citation.passage_id for citation in answer.citations] == [f"d{i}" for i in range(10)]
    assert answer.text.splitlines()[0] == "1. d0"


async def test_a_ranking_that_is_not_completed_is_concluded_by_a_query_from_all_that_was_observed() -> None:
    run = Run()
    model = generator(query=lambda prompt: "river delta" if "documents asked for" in prompt else "river a")
    await planner(model, retriever=documents(30), answer="ranking", max_steps=6).solve(QUESTION, run)
    assert queries(run) == ["river a", "river delta"]
    (asked,) = prompts(run, "search")
    assert "A step." in asked and "Search query: river a" in asked and "<passage" in asked
    assert not prompts(run, "answer")


async def test_the_retrieval_task_scores_the_ranking_even_where_the_budget_ended() -> None:
    task = Retrieval("small", "nDCG@10", (Example(id="q", question=QUESTION),), qrels={"q": {"d7": 1}})
    for calls in (None, 3, 2):
        run = Run(budget=Budget(calls=calls))
        model = generator(reason=["One.", "Answer: river"], query="river")
        method = planner(model, retriever=documents(30), answer="ranking")
        solved = await solve(method, QUESTION, run, id="q", name="cr_planner")
        assert solved.error is None
        scores = await task.score(task.loaded[0], solved.trajectory, None)
        assert scores["nDCG@10"].value == pytest.approx(1 / math.log2(9))


class Narrow:
    """A model whose context holds so many characters."""

    name = "scripted"

    def __init__(self, model: ScriptedModel, characters: int) -> None:
        self.model, self.characters = model, characters

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        if sum(len(message.content) for message in messages) > self.characters:
            raise ContextLengthExceeded("the prompt does not fit")
        return await self.model.generate(messages, sampling)


def narrow(characters: int, **settings: object) -> CRPlanner:
    """A planner whose model takes so many characters more than the question's own answer prompt."""
    long = [Passage(id=f"p{i}", text=f"Page {i}. " + "It goes on. " * 60) for i in range(9)]
    steps = generator(reason=[f"Thought {i}." for i in range(9)], query=[f"query {i}" for i in range(9)])
    made = planner(steps, retriever=ScriptedRetriever(long), max_steps=18, **settings)
    least = len(made.prompt("answer", State(QUESTION)))
    return replace(made, model=Narrow(steps, least + characters))


@pytest.mark.parametrize("characters", [400, 800, 1200])
async def test_a_context_that_is_full_ends_planning_and_there_is_an_answer(characters: int) -> None:
    run = Run()
    answer = await narrow(characters).solve(QUESTION, run)
    assert notes(run, "context full")[0].data["step"] in ("reason", "query")
    assert notes(run, "planning ended")
    assert answer.text == "Answer: forced"


async def test_documents_give_way_until_the_answer_fits() -> None:
    run = Run()
    answer = await narrow(2400).solve(QUESTION, run)
    (full,) = notes(run, "context full")
    assert (full.data["step"], full.data["passage_tokens"]) == ("answer", 125)
    assert answer.text == "Answer: forced"
    assert len(answer.shown) == 3


async def test_where_not_even_the_reasoning_fits_the_last_step_is_the_answer() -> None:
    planner = narrow(1200)
    run = Run()
    state = State(QUESTION).after(Observation("RATIONALE", "So it is the Danube. " * 200))
    answer = await planner.finish(state, run)
    assert answer.text.startswith("So it is the Danube.")
    assert notes(run, "context full")[-1].data["kept"] == "the last step"


async def test_a_critic_whose_context_is_full_leaves_the_choice_to_the_order() -> None:
    class Full(Wanting):
        async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
            raise ContextLengthExceeded("too long")

    run = Run()
    made = planner(generator(reason=["One.", "Two."]), candidates=2, max_steps=2, critics=critics(rationale=Full()))
    await made.solve(QUESTION, run)
    (choice,) = choices(run, "rationale")
    assert (choice.chosen, choice.why) == (0, "the first: the context is too long for the critic")
    assert [candidate.score for candidate in choice.candidates] == [None, None]
