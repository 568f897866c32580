"""What oracles teach: a reader to answer, to name what to read and to abstain; the Search Agent to act."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import ABSTENTION
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
from reground.methods.search_agent.steps import Prompts
from reground.retrieval.scripted import ScriptedRetriever
from reground.training.oracles import AgentOracle, Completed, Lessons, demonstrations, items, support
from reground.training.settings import AgentLessons, ReaderLessons

PASSAGES = [
    Passage(id="curie", title="Marie Curie", text="She won two prizes. Marie Curie was born in Warsaw. She moved."),
    Passage(id="warsaw", title="Warsaw", text="Warsaw is a capital. It lies on the Vistula. It has a zoo."),
    Passage(id="meitner", title="Lise Meitner", text="Lise Meitner was a physicist. She was born in Vienna."),
    Passage(id="zoo", title="Zoo", text="A zoo is a garden of animals. Marie likes the city."),
]
BRIDGE = Example(
    id="bridge",
    question="On which river lies the city where Marie Curie was born?",
    golden_answers=("the Vistula",),
    metadata={
        "type": "bridge",
        "gold_ids": ["curie", "warsaw"],
        "supporting_facts": [["Marie Curie", 1], ["Warsaw", 1]],
    },
)
COMPARISON = Example(
    id="comparison",
    question="Were Marie Curie and Lise Meitner born in the same city?",
    golden_answers=("no",),
    metadata={"type": "comparison", "gold_ids": ["curie", "meitner"], "supporting_facts": [["Marie Curie", 1]]},
)
CURIE, WARSAW, MEITNER, ZOO = PASSAGES
APART = [CURIE, ZOO, MEITNER, WARSAW]
"""The question's own words find Marie Curie and the zoo, of two results."""
UNNAMED = CURIE.model_copy(update={"text": "She won prizes. Marie Curie was born in the city. She moved."})
NEVER = ReaderLessons(unanswerable=0, most_passages=2)


async def taught(
    example: Example, *, settings: ReaderLessons | AgentLessons = NEVER, passages: list[Passage] = PASSAGES
) -> Lessons:
    task = QuestionAnswering(name="made", primary="token F1", loaded=(example,))
    retriever = ScriptedRetriever(passages)
    return await demonstrations(task, [example], retriever, retriever, settings)


def replies(lessons: Lessons) -> list[tuple[str, str]]:
    return [(str(row.extra["kind"]), row.messages[-1].content) for row in lessons.rows]


@pytest.mark.parametrize(
    ("passages", "wanted"),
    [
        (APART, [("abstain", ABSTENTION), ("names", "Warsaw"), ("answer", "the Vistula [3][1]")]),
        # a name that nothing mentions is not taught
        ([UNNAMED, ZOO, MEITNER, WARSAW], [("abstain", ABSTENTION), ("answer", "the Vistula [3][1]")]),
    ],
)
async def test_a_question_of_two_steps_is_abstained_from_followed_and_answered(
    passages: list[Passage], wanted: list[tuple[str, str]]
) -> None:
    assert replies(await taught(BRIDGE, passages=passages)) == wanted


async def test_with_the_gold_passages_put_in_the_first_reading_answers() -> None:
    settings = ReaderLessons(unanswerable=0, complete=1, most_passages=2)
    made = await taught(BRIDGE, settings=settings, passages=APART)
    ((kind, reply),) = replies(made)
    assert (kind, reply) in {("answer", "the Vistula [2][1]"), ("answer", "the Vistula [1][2]")}
    assert 'number="3"' not in made.rows[0].messages[0].content


@pytest.mark.parametrize("k", [1, 2, 3])
async def test_what_the_search_misses_takes_the_place_of_its_last(k: int) -> None:
    search = Completed(ScriptedRetriever([ZOO, WARSAW, MEITNER, CURIE]), [CURIE, WARSAW], random.Random(1))
    found = await search.retrieve("anything", k=k)
    assert len(found) == max(k, 2)
    assert {passage.id for passage in found} == {"curie", "warsaw"} | ({"zoo"} if k == 3 else set())
    firsts = {(await search.retrieve("anything", k=3))[0].id for _ in range(30)}
    assert firsts == {"curie", "zoo"}  # what was found keeps its order; what was missed stands anywhere


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metadata": {}}, "questions without known gold passages"),
        ({"metadata": {"gold_ids": ["gone"]}}, "questions whose gold passages the corpus lacks"),
        ({"golden_answers": ()}, "questions without a gold answer"),
        ({"golden_answers": ("the Rhine",)}, "questions whose gold passages do not hold the answer"),
    ],
)
async def test_questions_that_teach_nothing_are_counted(changed: dict[str, object], why: str) -> None:
    made = await taught(BRIDGE.model_copy(update=changed))
    assert not made.rows
    assert made.left_out == {why: 1}
    assert why in made.describe()


async def test_the_same_seed_gives_the_same_rows() -> None:
    first, again = [await taught(BRIDGE, settings=ReaderLessons(seed=3)) for _ in range(2)]
    assert first.rows == again.rows
    more = (await taught(BRIDGE, settings=ReaderLessons(seed=3, repeats=6))).rows
    assert len(first.rows) < len(more) == len({row.messages for row in more})
    assert {row.messages for row in first.rows} <= {row.messages for row in more}


def test_a_sentence_with_the_answer_counts_for_more_than_a_numbered_one() -> None:
    facts = {"supporting_facts": [["Warsaw", 0]]}
    assert support(PASSAGES[1], BRIDGE.model_copy(update={"metadata": facts})).sentences == ("It lies on the Vistula.",)
    other = BRIDGE.model_copy(update={"metadata": facts, "golden_answers": ("the Rhine",)})
    assert support(PASSAGES[1], other).sentences == ("Warsaw is a capital.",)
    beyond = {"supporting_facts": [["Warsaw", 9]]}
    assert support(PASSAGES[1], other.model_copy(update={"metadata": beyond})).sentences == ("Warsaw is a capital.",)


PAINTER = Passage(
    id="lint",
    title="Ada Lint",
    text="Ada Lint (Lisbon, 1902) was a painter. She painted boats. Ada Lint was born in Lisbon to a baker.",
)


@pytest.mark.parametrize("shown", ["Ada Lint (Lisbon, 1902) was a painter.", "Ada Lint was born in Lisbon to a baker."])
async def test_another_piece_of_the_gold_page_with_the_answer_is_answered_from(shown: str) -> None:
    example = Example(
        id="1", question="In which city was Ada Lint born?", golden_answers=("Lisbon",), metadata={"gold_ids": ["lint"]}
    )
    task = QuestionAnswering(name="made", primary="token F1", loaded=(example,))
    piece = Passage(id="lint#2", title="Ada Lint", text=shown)
    found, opened = ScriptedRetriever([PASSAGES[3], piece]), ScriptedRetriever([PAINTER])
    made = await demonstrations(task, [example], found, opened, NEVER)
    assert replies(made) == [("answer", "Lisbon [1]")]


TASK = QuestionAnswering(name="made", primary="token F1", loaded=(BRIDGE, COMPARISON))


async def acted(example: Example, passages: list[Passage], gold: list[Passage] = PASSAGES) -> tuple[AgentOracle, str]:
    """An oracle after its work in the agent's place, and the agent's answer."""
    oracle = AgentOracle(example, [each for each in gold if each.id in example.metadata["gold_ids"]])
    agent = SearchAgent(
        model=oracle, retriever=ScriptedRetriever(passages), form=TASK.form, samples=1, temperature=0, shots=0,
        checks=False, k=2, max_searches=3,
    )  # fmt: skip
    answer = await agent.solve(example.question, Run())
    return oracle, TASK.form.extract(answer.text)


def actions(oracle: AgentOracle) -> list[Action]:
    return [parse_action(row.messages[-1].content) for row in oracle.rows if row.extra["kind"] != "finish"]


async def test_a_bridge_is_followed_to_the_page_that_a_result_names() -> None:
    oracle, answer = await acted(BRIDGE, APART)
    first, looked, second, read, end, said = actions(oracle)
    assert first == Search(BRIDGE.question, "Nothing is known yet.")
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
    oracle, answer = await acted(COMPARISON, [CURIE, nearer, MEITNER])
    did = actions(oracle)
    assert [type(each) for each in did] == [Search, LinkSelection, Search, LinkSelection, Terminate, GivenAnswer]
    assert did[2] == Search("Lise Meitner", "It is not known yet what is said of Lise Meitner.")
    assert answer == "no"


async def test_a_page_that_nothing_names_is_not_searched_and_nothing_is_answered() -> None:
    oracle, _ = await acted(BRIDGE, [UNNAMED, ZOO, MEITNER, WARSAW], [UNNAMED, WARSAW])
    kinds = [row.extra["kind"] for row in oracle.rows]
    assert kinds == ["decide", "summarise", "decide", "finish"]
    assert isinstance(parse_action(oracle.rows[2].messages[-1].content), Terminate)


async def test_of_each_kind_of_step_one_is_taught_without_worked_examples() -> None:
    made = await taught(BRIDGE, settings=AgentLessons(k=2), passages=APART)
    assert made.kinds == {"decide": 1, "summarise": 1, "answer": 1, "finish": 1}
    for row in made.rows:
        roles = [message.role for message in row.messages]
        assert roles == (["user", "assistant"] if row.extra["kind"] == "finish" else ["system", "user", "assistant"])
    systems = {row.messages[0].content for row in made.rows}
    assert {Prompts().system(name) for name in ("decide", "summarise", "answer")} < systems
    assert next(row for row in made.rows if row.extra["kind"] == "finish").messages[-1].content == "the Vistula"
    assert (await taught(BRIDGE, settings=AgentLessons(k=2), passages=APART)).rows == made.rows
    drawn = [await taught(BRIDGE, settings=AgentLessons(k=2, seed=seed), passages=APART) for seed in range(9)]
    assert len({each.rows[0].messages[-1].content for each in drawn}) > 1, "which of them is drawn by the seed"


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=4))
def test_results_are_read_back_as_the_prompt_shows_them(texts: list[tuple[str, str]]) -> None:
    """Whatever stands in titles and snippets: they are data, and end neither a string nor an item."""
    links = [ResultItem(i, title, snippet) for i, (title, snippet) in enumerate(texts, start=1)]
    shown = results_code(links, snippet_tokens=1000)
    assert [each.link_id for each in items(f"PAST\n{shown}\n")] == [each.link_id for each in links]
    assert results_code(items(shown), snippet_tokens=1000) == shown
