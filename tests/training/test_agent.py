"""From trajectories to what the agent is fine-tuned on, and the ranking of samples."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import PHRASE
from reground.core.errors import ContextLengthExceeded, DataError, ModelError
from reground.core.evidence import Passage
from reground.core.files import append_line
from reground.core.language import Message, Reply, Sampling, TokenLogprob
from reground.core.run import Run
from reground.core.trajectory import Failure, Trajectory, append_trajectory
from reground.evaluation.results import Record
from reground.methods.search_agent import ANSWER, DECIDE, SUMMARISE, Prompts, SearchAgent
from reground.methods.search_agent.actions import (
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    ReviseAnswer,
    Search,
    Terminate,
    read_action,
    reply,
)
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.training.agent import (
    BY_NAME,
    Ranker,
    Sample,
    Turn,
    answer_rows,
    answers_of,
    grown_turns,
    mixture,
    rank,
    rankable,
    read_ranking,
    turns_of,
)

NEXT = Search("height of the tower of Pisa", "The height of that tower is still unknown.")
SAMPLES = {
    "decide": (NEXT, Search("tower Pisa", "Let's look it up."), Terminate("That is enough now.")),
    "summarise": (LinkSelection("[link_id=1] says 57 metres.", (1,), "Now the height is known to us."),),
    "answer": (GivenAnswer("57 metres [link_id=1].", "It stands in the first result."),),
    "relevance": (CheckAnswer(True),),
    "grounding": (ReviseAnswer("57 metres."),),
}


def scored(action: Action, logprob: float, comments: Sequence[str] = ()) -> Reply:
    text = reply(action, comments)
    return Reply(text=text, token_logprobs=(TokenLogprob(token=text, logprob=logprob),))


async def trajectory(script: Callable[..., Reply | str], **settings: object) -> Trajectory:
    """What the agent does where a model says what the script says."""
    passages = [Passage(id="p", text="The tower is 57 metres high.")]
    agent = SearchAgent(model=ScriptedModel(script), retriever=ScriptedRetriever(passages), **settings)
    run = Run(question_id="q1")
    answer = await agent.solve("How high is the tower of Pisa?", run)
    return Trajectory(id="q1", question="How high?", method="search_agent", steps=run.steps, answer=answer)


async def solved() -> Trajectory:
    """A trajectory of one search; its decision has two samples that differ."""
    drawn = iter([scored(NEXT, -0.2), scored(SAMPLES["decide"][1], -0.1)])

    def script(messages: Sequence[Message], sampling: Sampling) -> Reply | str:
        name = next(name for name in BY_NAME if messages[0].content == Prompts().system(name))
        return next(drawn, "no more") if name == "decide" else scored(SAMPLES[name][0], -0.5, ["It helps."])

    return await trajectory(script, samples=2, max_searches=1, retries=0)


async def in_form(text: str, *, cut: bool = False) -> Trajectory:
    """A trajectory without a search, with this short answer."""

    def script(messages: Sequence[Message], sampling: Sampling) -> Reply | str:
        steps = {Prompts().system("decide"): Terminate("Enough."), Prompts().system("answer"): SAMPLES["answer"][0]}
        action = steps.get(messages[0].content)
        finish = Reply(text=text, finish_reason="length" if cut else "stop")
        return finish if action is None else reply(action)

    return await trajectory(script, form=PHRASE, samples=1, temperature=0.0, checks=False)


def keep_grown(out: Path, told: Trajectory, name: str, **end: object) -> None:
    """Put a trajectory among those that were grown."""
    append_trajectory(out / "grown" / "trajectories.jsonl", told.model_copy(update={"id": name, **end}))
    append_line(out / "grown" / "scores.jsonl", Record(id=name, example=name, repeat=0, **end).model_dump_json())


async def test_every_reasoning_step_becomes_a_row_without_exemplars() -> None:
    turns = [*turns_of(await solved(), "q1")]
    assert [turn.step.name for turn in turns] == ["decide", "summarise", "answer", "relevance", "grounding"]
    made = mixture(turns)
    assert sorted(made.steps) == sorted(turn.step.name for turn in turns)
    for row in made.rows:
        system, state, said = row.messages
        assert (system.role, state.role, said.role) == ("system", "user", "assistant")
        assert system.content == Prompts().system(str(row.extra["step"]))
        assert "How high is the tower of Pisa?" in state.content
        assert read_action(said.content)[0]
    decided = next(row for row in made.rows if row.extra["step"] == "decide")
    assert decided.messages[-1].content == reply(SAMPLES["decide"][1]), "the lowest perplexity, as the agent chose"
    summary = next(row for row in made.rows if row.extra["step"] == "summarise")
    assert summary.messages[-1].content.startswith("# It helps.\nACTION_SELECTED = LinkSelection(")


@pytest.mark.parametrize(
    ("step", "action", "why"),
    [
        (DECIDE, Search("a tower", ""), "no thoughts"),
        (DECIDE, Terminate(" "), "no thoughts"),
        (SUMMARISE, LinkSelection("It is high.", (1,), ""), "no thoughts"),
        (ANSWER, GivenAnswer("57 metres.", ""), "no thoughts"),
        *[(DECIDE, each.action, "copies an exemplar") for each in DECIDE.exemplars[:1]],
        (SUMMARISE, replace(SUMMARISE.exemplars[0].action, selected_link_ids=(9,)), "copies an exemplar"),
    ],
)
def test_a_bad_sample_is_left_out_and_counted(step, action, why) -> None:
    made = mixture([turn(step.name, action)])
    assert (made.rows, made.dropped) == ([], {why: 1})
    good = SAMPLES[step.name][0]
    (row,) = mixture([turn(step.name, action, good)]).rows
    assert row.messages[-1].content == reply(good)


def turn(name: str, *actions: Action, logprobs: Sequence[float] = (), number: int = 0) -> Turn:
    values = [*logprobs, *(-float(i) for i in range(len(actions)))]
    samples = tuple(Sample(action, reply(action), logprob) for action, logprob in zip(actions, values, strict=False))
    return Turn("q1", "q1", number, BY_NAME[name], f"ORIGINAL_QUESTION = {number}", samples, 0)


async def test_the_call_that_states_the_short_answer_is_taught_too() -> None:
    told = await in_form(" 57 metres \n")
    (row,) = answers_of(told, "q1")
    assert [message.role for message in row.messages] == ["user", "assistant"]
    assert row.messages[-1].content == "57 metres"
    assert "How high is the tower of Pisa?" in row.messages[0].content
    made = mixture(turns_of(told, "q1"), answers_of(told, "q1"))
    assert made.steps == {"decide": 1, "answer": 1, "finish": 1}
    assert len(mixture(turns_of(told, "q1"), answers_of(told, "q1"), most=2).rows) == 2


@pytest.mark.parametrize(("said", "cut"), [("", False), ("57 metres", True)])
async def test_a_short_answer_that_is_none_is_not_taught(said: str, cut: bool) -> None:
    assert [*answers_of(await in_form(said, cut=cut), "q1")] == []


def test_a_ranking_decides_and_what_was_not_ranked_is_told_and_written_down() -> None:
    unlike = [turn("decide", *SAMPLES["decide"], number=i) for i in range(3)]
    ranking = {"q1#0": [2, 0, 1], "q1#1": [1]}
    made = mixture([*unlike, turn("decide", NEXT, NEXT, number=3)], by="ranking", ranking=ranking)
    chosen = {row.extra["turn"]: (read_action(row.messages[-1].content)[0], row.extra["by"]) for row in made.rows}
    first, second, third = SAMPLES["decide"]
    ranked = {0: (third, "ranking"), 1: (second, "ranking")}
    assert chosen == {**ranked, 2: (first, "perplexity"), 3: (first, "perplexity")}
    assert made.unranked == 1
    assert made.describe().endswith("; 1 steps by perplexity, because they were not ranked")
    assert "not ranked" not in mixture(unlike).describe()


@given(seed=st.integers(0, 99), order=st.randoms(use_true_random=False), most=st.none() | st.integers(0, 12))
def test_the_same_seed_gives_the_same_rows_and_chance_as_many(
    seed: int, order: random.Random, most: int | None
) -> None:
    turns = [turn("decide", *order.sample(SAMPLES["decide"], k=order.randint(1, 3)), number=i) for i in range(10)]
    for by in ("perplexity", "ranking", "chance"):
        made = mixture(turns, by=by, seed=seed, most=most)
        assert made == mixture(turns, by=by, seed=seed, most=most)
        assert len(made.rows) == min(10, 10 if most is None else most)
        for row in made.rows:
            assert row.messages[-1].content in {sample.text for sample in turns[int(str(row.extra["turn"]))].samples}


@pytest.mark.parametrize(
    ("said", "order"),
    [
        ("Explanation: #1 is empty\nAnswer: #2\nRanking: #2 > #3 > #1", [1, 2, 0]),
        ("**Ranking**: 3 > 1", [2, 0]),
        ("Ranking: #9 > #2 > #2", [1]),
        ("Ranking: none\nAnswer: #3", [2]),
        ("Answer: #3\nRanking: 1. #3 2. #1 3. #2", [2, 0, 1]),
        ("Ranking: 1st #3, 2nd #1", [2, 0]),
        ("Ranking: #2 > #1 (of 3 samples)", [1, 0]),
        ("Ranking:\n#2 > #1", [1, 0]),
        ("**Ranking:**\n\n1. #3\n2. #1\nI put those 2 first.", [2, 0]),
        ("Ranking:\n1. 3\n2. 1\n\nExplanation: 2 is empty", [2, 0]),
        ("Ranking:\nAnswer: #2", [1]),
        ("Ranking:\nnone of them\n#1", None),
        ("Answer: the third", None),
        ("#1 is the best", None),
        ("", None),
    ],
)
def test_a_ranking_is_read(said: str, order: list[int] | None) -> None:
    assert read_ranking(said, 3) == order


async def test_samples_rotate_so_that_a_preferred_place_is_no_preferred_sample() -> None:
    first = [
        await Ranker(model=ScriptedModel(lambda *_: "Ranking: #1 > #2 > #3")).order(
            turn("decide", *SAMPLES["decide"], number=i), Run()
        )
        for i in range(30)
    ]
    assert {order[0] for order in first if order} == {0, 1, 2}


async def test_samples_that_a_ranking_does_not_name_come_last_by_perplexity() -> None:
    ranker = Ranker(model=ScriptedModel(lambda *_: "Ranking: #1"))
    for number in range(9):
        order = await ranker.order(turn("decide", *SAMPLES["decide"], logprobs=(-3, -2, -1), number=number), Run())
        assert order is not None
        assert list(order[1:]) == sorted(order[1:], reverse=True)


async def test_what_is_ranked_are_the_steps_whose_samples_differ(tmp_path: Path) -> None:
    """Both samples of every step but the decision are alike."""
    keep_grown(tmp_path, await solved(), "q1")
    assert [turn.step for turn in rankable(tmp_path)] == [DECIDE]
    assert await rank(tmp_path, Ranker(model=ScriptedModel(["Ranking: #1 > #2"]))) == (1, 0)


@pytest.mark.parametrize(("usable", "advice"), [(True, "samples=4"), (False, "a model that keeps to the form")])
async def test_the_advice_where_nothing_can_be_ranked_follows_from_why(usable, advice: str, tmp_path: Path) -> None:
    said = reply(Terminate("Enough.")) if usable else "Hm."
    keep_grown(tmp_path, await trajectory(lambda *_: said, samples=2, checks=False, max_searches=1, retries=0), "q1")
    with pytest.raises(DataError, match=advice):
        await rank(tmp_path, Ranker(model=ScriptedModel([])))


async def test_steps_of_failed_questions_are_neither_ranked_nor_taught(tmp_path: Path) -> None:
    told = await in_form("57 metres")
    keep_grown(tmp_path, told, "whole")
    keep_grown(tmp_path, told, "ended", stopped="tokens")
    keep_grown(tmp_path, told, "failed", failure=Failure(type="ModelError", message=""))
    assert {turn.trajectory for turn in grown_turns(tmp_path)} == {"whole", "ended"}
    assert {row.extra["trajectory"] for row in answer_rows(tmp_path)} == {"whole", "ended"}
    assert len([*grown_turns(tmp_path, failed=True)]) == 2


async def test_a_step_that_the_model_refuses_is_unread_and_the_others_are_ranked(tmp_path: Path) -> None:
    for name in ("q1", "q2"):
        keep_grown(tmp_path, await solved(), name)
    left = [ModelError("cannot reach it")] * 2 + [ContextLengthExceeded("too long"), "Ranking: #1 > #2"]
    ranker = Ranker(model=ScriptedModel(left))
    with pytest.raises(ModelError, match="cannot reach it"):
        await rank(tmp_path, ranker)
    assert await rank(tmp_path, ranker) == (1, 1)


async def test_each_sample_may_be_judged_by_itself() -> None:
    model = ScriptedModel(lambda messages, _: "Yes." if "Let's look it up" in messages[-1].content else "No.")
    order = await Ranker(model=model, style="judge").order(turn("decide", *SAMPLES["decide"]), Run())
    assert order == (1, 0, 2)
    assert len(model.calls) == 3


async def test_exemplars_rotate_with_the_question() -> None:
    shown = set()
    for question in map(str, range(12)):
        model = ScriptedModel(lambda *_: reply(Terminate("Enough.")))
        agent = SearchAgent(
            model=model, retriever=ScriptedRetriever([]), samples=1, temperature=0.0, shots=1, exemplars="rotated",
            checks=False,
        )  # fmt: skip
        await agent.solve(question, Run())
        messages = model.calls[0][0]
        assert len(messages) == 4
        shown.add(messages[1].content)
    assert len(shown) > 4
