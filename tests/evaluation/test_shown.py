"""What prompts showed of what was retrieved, found by its words and whatever a method puts around them."""

from __future__ import annotations

import pytest

from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling
from reground.core.method import solve
from reground.core.run import Run
from reground.core.trajectory import GenerateStep
from reground.core.untrusted import fence
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.evaluation.tasks.retrieval import shown_texts
from reground.methods.baselines import RAG
from reground.methods.search_agent import SearchAgent
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.evaluation.trajectories import answered, retrieval

TOWER = Passage(
    id="tower", title="Tower", text='It was "built" by Koechlin, in Paris. Später — im Jahr 1889 — war es fertig.'
)


def prompt(*contents: str) -> GenerateStep:
    messages = tuple(Message(role="user", content=content) for content in contents)
    reply = (Reply(text="x"),)
    return GenerateStep(
        span="", ordinal=0, name="answer", model="m", messages=messages, sampling=Sampling(), replies=reply
    )


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (fence([TOWER]), ["Tower", 'It was "built" by Koechlin, in Paris. Später — im Jahr 1889 — war es fertig']),
        (fence([TOWER], tokens=9), ["Tower", 'It was "built" by Koechlin, in']),
        ('snippet="It was \\"built\\" by Koechlin, in Paris. ..."', ["Tower", 'It was "built" by Koechlin, in Paris']),
        ("It was built by\n[...]\nim Jahr 1889 war", ["Tower", 'It was "built" by', "im Jahr 1889 — war"]),
        ("Who built the Tower in Paris, and was it by Koechlin?", []),
        ("", []),
    ],
)
def test_the_stretches_that_a_prompt_holds(content: str, texts: list[str]) -> None:
    assert shown_texts(answered("x", retrieval(TOWER), prompt("Tower", content))) == texts


def test_short_passages_and_those_without_text_and_trajectories_without_prompts() -> None:
    short, empty = Passage(id="s", text="In 1889."), Passage(id="e", title="Empty", text="")
    assert shown_texts(answered("x", retrieval(short, empty), prompt("(in 1889)"))) == ["", "In 1889"]
    assert shown_texts(answered("x", retrieval(short, empty), prompt("1889"))) == []
    assert shown_texts(answered("x", retrieval(short))) == ["\nIn 1889."]


FILLER = "Nothing of what was asked is said in these words. " * 12
LATE = [Passage(id="late", title="Tower", text=f"{FILLER}The tower was built by Maurice Koechlin.")]
EXAMPLE = Example(id="q", question="Who built the tower?", golden_answers=("Maurice Koechlin",))


@pytest.mark.parametrize("tokens", [40, 400])
async def test_a_cut_snippet_of_the_search_agent_is_no_hit(tokens: int) -> None:
    replies = [
        'Search(query="tower")',
        'LinkSelection(grounded_summarization="[link_id=1] helps.", thoughts="t", selected_link_ids=[1])',
        'Terminate(thoughts="t")',
        'Answer(thoughts="t", answer="Eiffel.")',
    ]
    agent = SearchAgent(
        model=ScriptedModel(replies),
        retriever=ScriptedRetriever(LATE),
        samples=1,
        checks=False,
        snippet_tokens=tokens,
    )
    solved = await solve(agent, EXAMPLE.question, Run(), id="q", name="search_agent")
    scores = await QuestionAnswering("t", "exact match", (EXAMPLE,)).score(EXAMPLE, solved.trajectory, None)
    assert scores["hit"].value == float(tokens == 400)


@pytest.mark.parametrize("tokens", [40, 400])
async def test_a_cut_passage_of_rag_is_no_hit(tokens: int) -> None:
    method = RAG(model=ScriptedModel(["Eiffel"]), retriever=ScriptedRetriever(LATE), passage_tokens=tokens)
    solved = await solve(method, EXAMPLE.question, Run(), id="q", name="rag")
    scores = await QuestionAnswering("t", "exact match", (EXAMPLE,)).score(EXAMPLE, solved.trajectory, None)
    assert scores["hit"].value == float(tokens == 400)
