"""What an oracle does in the Search Agent's place: it follows what is named, copies what counts, and answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reground.core.evidence import Passage
from reground.core.run import Run
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.methods.search_agent import SearchAgent
from reground.methods.search_agent.actions import (
    Action,
    GivenAnswer,
    LinkSelection,
    ResultItem,
    Search,
    Terminate,
    parse_action,
    results_code,
)
from reground.methods.search_agent.prompts import Prompts
from reground.retrieval.scripted import ScriptedRetriever
from reground.training.oracles import AgentOracle, Lessons, demonstrations, items
from reground.training.settings import AgentLessons
from tests.training.reader.test_demonstrations import BRIDGE, COMPARISON, PASSAGES

CURIE, WARSAW, MEITNER, ZOO = PASSAGES
APART = [CURIE, ZOO, MEITNER, WARSAW]
"""The question's own words find Marie Curie and the zoo, of two results."""
TASK = QuestionAnswering(name="made", primary="token F1", loaded=(BRIDGE, COMPARISON))


def gold(example: Example, passages: list[Passage] = PASSAGES) -> list[Passage]:
    return [each for each in passages if each.id in example.metadata["gold_ids"]]


async def actions(example: Example, passages: list[Passage], **settings: int) -> tuple[list[Action], str]:
    """What the oracle does in the agent's place, and the agent's answer."""
    oracle = AgentOracle(example, gold(example))
    agent = SearchAgent(
        model=oracle, retriever=ScriptedRetriever(passages), form=TASK.form, samples=1, temperature=0, shots=0,
        checks=False, **{"k": 2, "max_searches": 3, **settings},
    )  # fmt: skip
    answer = await agent.solve(example.question, Run())
    said = [row for row in oracle.rows if row.extra["kind"] != "finish"]
    return [parse_action(row.messages[-1].content) for row in said], TASK.form.extract(answer.text)


async def test_a_bridge_is_followed_to_the_page_that_a_result_names() -> None:
    did, answer = await actions(BRIDGE, APART)
    question = Search(BRIDGE.question, "Nothing is known yet.")
    (first, looked, second, read, end, said) = did
    assert first == question
    assert looked == LinkSelection("Marie Curie was born in Warsaw. [link_id=1]", (1,), "Something is still missing.")
    assert second == Search("Warsaw", "It is not known yet what is said of Warsaw.")
    assert isinstance(read, LinkSelection)
    assert read.grounded_summarization.endswith("It lies on the Vistula. [link_id=3]")
    assert read.thoughts == "That is enough to answer."
    assert isinstance(end, Terminate)
    assert said == GivenAnswer(
        "The answer is the Vistula [link_id=3][link_id=1].", "It stands in [link_id=3][link_id=1]."
    )
    assert answer == "the Vistula"


async def test_a_comparison_is_answered_only_from_both_sides() -> None:
    nearer = Passage(id="same", title="Same", text="Were they born in the same city? Both were born in the city.")
    did, answer = await actions(COMPARISON, [CURIE, nearer, MEITNER])
    assert [type(each) for each in did] == [Search, LinkSelection, Search, LinkSelection, Terminate, GivenAnswer]
    assert did[2] == Search("Lise Meitner", "It is not known yet what is said of Lise Meitner.")
    assert answer == "no"


async def test_a_page_that_nothing_names_is_not_searched_and_nothing_is_answered() -> None:
    unnamed = CURIE.model_copy(update={"text": "She won prizes. Marie Curie was born in the city. She moved."})
    example = BRIDGE.model_copy(update={"golden_answers": ("the Vistula",)})
    oracle = AgentOracle(example, gold(example, [unnamed, WARSAW]))
    agent = SearchAgent(
        model=oracle, retriever=ScriptedRetriever([unnamed, ZOO, MEITNER, WARSAW]), form=TASK.form, samples=1,
        temperature=0, shots=0, checks=False, k=2,
    )  # fmt: skip
    await agent.solve(example.question, Run())
    kinds = [row.extra["kind"] for row in oracle.rows]
    assert kinds == ["decide", "summarise", "decide", "finish"]
    assert isinstance(parse_action(oracle.rows[2].messages[-1].content), Terminate)


async def taught(settings: AgentLessons, passages: list[Passage] = APART) -> Lessons:
    retriever = ScriptedRetriever(passages)
    return await demonstrations(TASK, [BRIDGE], retriever, retriever, settings)


async def test_of_each_kind_of_step_one_is_taught_without_worked_examples() -> None:
    made = await taught(AgentLessons(k=2))
    assert made.kinds == {"decide": 1, "summarise": 1, "answer": 1, "finish": 1}
    for row in made.rows:
        roles = [message.role for message in row.messages]
        assert roles == (["user", "assistant"] if row.extra["kind"] == "finish" else ["system", "user", "assistant"])
    systems = {row.messages[0].content for row in made.rows}
    assert {Prompts().system(name) for name in ("decide", "summarise", "answer")} < systems
    assert next(row for row in made.rows if row.extra["kind"] == "finish").messages[-1].content == "the Vistula"
    assert (await taught(AgentLessons(k=2))).rows == made.rows
    drawn = {(await taught(AgentLessons(k=2, seed=seed))).rows[0].messages[-1].content for seed in range(9)}
    assert len(drawn) > 1, "which of them is drawn by the seed"


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=4))
def test_results_are_read_back_as_the_prompt_shows_them(texts: list[tuple[str, str]]) -> None:
    """Whatever stands in titles and snippets: they are data, and end neither a string nor an item."""
    links = [ResultItem(i, title, snippet) for i, (title, snippet) in enumerate(texts, start=1)]
    shown = results_code(links, snippet_tokens=1000)
    assert [each.link_id for each in items(f"PAST\n{shown}\n")] == [each.link_id for each in links]
    assert results_code(items(shown), snippet_tokens=1000) == shown
