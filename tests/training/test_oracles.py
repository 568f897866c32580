"""What oracles teach: to look up the next thing, to quote, to answer, to abstain, to correct a draft and to act."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import ABSTENTION, PHRASE, TEXT, Answer
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.evaluation.task import Example
from reground.evaluation.tasks.qa import QuestionAnswering
from reground.methods.baselines import RAG
from reground.methods.grounded import Grounded
from reground.methods.ircot import IRCoT
from reground.methods.rar import RaR
from reground.methods.search_agent import SearchAgent, actions
from reground.retrieval.scripted import ScriptedRetriever
from reground.training.oracles import Completed, Lessons, Oracle, comparison, demonstrations, hop, sized, sources
from reground.training.settings import READ, ReaderLessons

PASSAGES = [
    Passage(id="curie", title="Marie Curie", text="She won two prizes. Marie Curie was born in Warsaw. She moved."),
    Passage(id="warsaw", title="Warsaw", text="Warsaw is a capital. It lies on the Vistula. It has a zoo."),
    Passage(id="meitner", title="Lise Meitner", text="Lise Meitner was a physicist. She was born in Vienna."),
    Passage(id="zoo", title="Zoo", text="A zoo is a garden of animals. Marie likes the city."),
]
FACTS = {"gold_ids": ["curie", "warsaw"], "supporting_facts": [["Marie Curie", 1], ["Warsaw", 1]]}
BRIDGE = Example(
    id="bridge",
    question="On which river lies the city where Marie Curie was born?",
    golden_answers=("the Vistula",),
    metadata={"type": "bridge", **FACTS},
)
PARTS = [
    {"question": "Where was Marie Curie born", "answer": "Warsaw", "support_id": "curie"},
    {"question": "#1 >> river", "answer": "the Vistula", "support_id": "warsaw"},
]
CHAIN = BRIDGE.model_copy(update={"metadata": {"gold_ids": ["curie", "warsaw"], "decomposition": PARTS}})
TRIPLES = [["Marie Curie", "birthplace", "Warsaw"], ["Warsaw", "river", "the Vistula"]]
STATED = CHAIN.model_copy(update={"metadata": {**CHAIN.metadata, "evidence": TRIPLES}})
THOUGHTS = "Marie Curie was born in Warsaw. Warsaw lies on the Vistula."
THOUGHT = BRIDGE.model_copy(update={"metadata": {"gold_ids": ["curie", "warsaw"], "reasoning": THOUGHTS}})
BIRTHPLACES = [["Marie Curie", "birthplace", "Warsaw"], ["Lise Meitner", "birthplace", "Vienna"]]
BOTH = {"gold_ids": ["curie", "meitner"], "supporting_sentences": [["Marie Curie", "Marie Curie was born in Warsaw."]]}
COMPARISON = Example(
    id="comparison",
    question="Were Marie Curie and Lise Meitner born in the same city?",
    golden_answers=("no",),
    metadata={"type": "comparison", "evidence": BIRTHPLACES, **BOTH},
)
CURIE, WARSAW, MEITNER, ZOO = PASSAGES
APART = [CURIE, ZOO, MEITNER, WARSAW]
"""The question's own words find Marie Curie and the zoo, of two results."""
PAINTER = Passage(
    id="lint",
    title="Ada Lint (painter)",
    text="Ada Lint (Lisbon, 1902) was a painter. She painted boats. Ada Lint was born in Lisbon to a baker.",
)
LONG = [Passage(id=f"old-{n}", title=f"Warsaw or Curie {n}", text=f"It is long ago. {n}") for n in range(9)]
UNNAMED = CURIE.model_copy(update={"text": "She won prizes. Marie Curie was born in the city. She moved."})
BRIEF = partial(Grounded, k=2, brief=True, abstain=True)
QUOTE = partial(RAG, k=4, quote=True)
AGENT = partial(SearchAgent, samples=1, temperature=0, shots=0, checks=False, k=2, max_searches=3)


async def acted(build: Any, example: Example, passages: list[Passage], **more: str) -> tuple[Oracle, Answer]:
    """An oracle after its work in a method's place, and the method's answer."""
    opened = {each.id: each for each in [*PASSAGES, *passages]}
    oracle = Oracle(example, [opened[each] for each in example.metadata["gold_ids"]], **more)
    form = TEXT if more.get("style") == "prose" else PHRASE
    method = build(model=oracle, retriever=ScriptedRetriever(passages), form=form)
    return oracle, await method.solve(example.question, Run())


def replies(rows: Any) -> list[tuple[str, str]]:
    return [(str(row.extra["kind"]), row.messages[-1].content) for row in rows]


READ_AGAIN = [("abstain", ABSTENTION), ("names", "Warsaw river"), ("brief", "the Vistula [3][1]")]
ONE = CHAIN.model_copy(update={"golden_answers": ("Warsaw",), "metadata": {**FACTS, "decomposition": PARTS[:1]}})
RIVER = "Marie Curie was born in Warsaw [1].\n\nWarsaw: It lies on the Vistula [2].\n\nAnswer: the Vistula"


@pytest.mark.parametrize(
    ("build", "example", "passages", "more", "wanted"),
    [
        (BRIEF, BRIDGE, APART, {"style": "brief"}, [READ_AGAIN[0], ("names", "Warsaw"), READ_AGAIN[2]]),
        # a name that nothing mentions is not taught
        (BRIEF, BRIDGE, [UNNAMED, *APART[1:]], {"style": "brief"}, [READ_AGAIN[0], READ_AGAIN[2]]),
        # the answer of the first part is filled into the second one, where it has been read
        (BRIEF, CHAIN, APART, {"style": "brief"}, READ_AGAIN),
        (BRIEF, CHAIN, [ZOO, MEITNER], {"style": "brief"}, [READ_AGAIN[0], ("names", "Where was Marie Curie born?")]),
        # a passage that speaks as a prompt does is none
        (QUOTE, CHAIN, [CURIE, WARSAW, ZOO.model_copy(update={"text": f"{ABSTENTION} Think step by step."})],
         {"style": "quote"}, [("quote", '"Marie Curie was born in Warsaw." [1]\n"It lies on the Vistula." [2]\n'
                               "Answer: the Vistula")]),
        (QUOTE, CHAIN, [CURIE, ZOO], {"style": "quote"}, []),
        (QUOTE, COMPARISON, APART, {"style": "quote"},
         [("quote", '"Marie Curie was born in Warsaw." [1]\n"She was born in Vienna." [2]\n'
           "Warsaw and Vienna are not the same.\nAnswer: no")]),
        (partial(RAG, k=4), STATED, APART, {"style": "prose"},
         [("prose", "The birthplace of Marie Curie is Warsaw [1]. The river of Warsaw is the Vistula [3].")]),
        # "It lies on the Vistula" is not understood alone
        (partial(RAG, k=4), CHAIN, APART, {"style": "prose"}, [("prose", "The answer is the Vistula [3][1].")]),
        (partial(IRCoT, k=2), CHAIN, APART, {},
         [("reason", "Marie Curie was born in Warsaw."), ("reason", "Next to look up: Warsaw river."),
          ("reason", "Warsaw: It lies on the Vistula."), ("reason", "So the answer is the Vistula."),
          ("phrase", "the Vistula")]),
        (partial(IRCoT, k=2), THOUGHT, APART, {},
         [("reason", "Marie Curie was born in Warsaw."), ("reason", "Next to look up: Warsaw."),
          ("reason", "Warsaw lies on the Vistula."), ("reason", "So the answer is the Vistula."),
          ("phrase", "the Vistula")]),
        (RaR, CHAIN, APART, {"wrong": "the Rhine"},
         [("query", "Where was Marie Curie born?"), ("query", "Warsaw river"),
          ("refine", "Marie Curie was born in Warsaw [1]."),
          ("reflect", "It is not the Rhine but the Vistula [2]."), ("refine", RIVER), ("refine", "NO CHANGE")]),
        (RaR, ONE, [CURIE], {}, [("query", "Where was Marie Curie born?"), ("reflect", "OK"),
         ("refine", "Marie Curie was born in Warsaw [1].\n\nAnswer: Warsaw"), ("refine", "NO CHANGE")]),
        (RaR, CHAIN, [ZOO, MEITNER], {"wrong": "the Rhine"},
         [("query", "Where was Marie Curie born?"), ("query", "Warsaw river"), ("refine", "NO CHANGE")]),
    ],
)  # fmt: skip
async def test_each_method_is_taught_along_the_chain_what_its_prompts_show(
    build: Any, example: Example, passages: list[Passage], more: dict[str, str], wanted: list[tuple[str, str]]
) -> None:
    oracle, _ = await acted(build, example, passages, **more)
    assert list(dict.fromkeys(replies(oracle.rows))) == wanted


def test_two_values_are_compared_where_words_show_it() -> None:
    assert comparison(["27 July 1882", "November 5, 1994"], "Ada") == "27 July 1882 is earlier than November 5, 1994."
    assert comparison(["November 1994", "27 July 1882"], "Ada") == "27 July 1882 is earlier than November 1994."
    assert comparison(["India", "India"], "yes") == "Both are India."
    for values, answer in ((["May 1994", "June 1994"], "Ada"), (["American", "United States"], "yes")):
        assert comparison(values, answer) == ""


@pytest.mark.parametrize(("others", "tokens"), [((), 15), (["Boats are made of wood."] * 9, 60)])
def test_a_passage_is_cut_around_its_sentence_or_stands_among_others(others: list[str], tokens: int) -> None:
    said = "Ada Lint was born in Lisbon to a baker."
    made = [sized(PAINTER, said, others, tokens, random.Random(seed)).text for seed in range(20)]
    assert all(said in text and ("wood" in text) == bool(others) and len(text) <= 4 * tokens for text in made)


@pytest.mark.parametrize("k", [1, 2, 3])
async def test_what_the_search_misses_takes_the_place_of_its_last(k: int) -> None:
    search = Completed(ScriptedRetriever([ZOO, WARSAW, MEITNER, CURIE]), [CURIE, WARSAW], random.Random(1))
    found = await search.retrieve("anything", k=k)
    assert len(found) == max(k, 2)
    assert {passage.id for passage in found} == {"curie", "warsaw"} | ({"zoo"} if k == 3 else set())
    firsts = {(await search.retrieve("anything", k=3))[0].id for _ in range(30)}
    assert firsts == {"curie", "zoo"}  # what was found keeps its order; what was missed stands anywhere


async def taught(example: Example, *, passages: list[Passage] = PASSAGES, **settings: Any) -> Lessons:
    other = BRIDGE.model_copy(update={"id": "other", "golden_answers": ("the Vistula", "the Danube"), "metadata": {}})
    task = QuestionAnswering(name="made", primary="token F1", loaded=(example, other))
    retriever = ScriptedRetriever(passages)
    return await demonstrations(task, task.loaded[:1], retriever, retriever, ReaderLessons(**settings))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metadata": {}}, "questions without known gold passages"),
        ({"metadata": {"gold_ids": ["gone"]}}, "questions whose gold passages the corpus lacks"),
        ({"golden_answers": ()}, "questions whose gold passages do not hold the answer"),
        ({"golden_answers": ("the Rhine",)}, "questions whose gold passages do not hold the answer"),
    ],
)
async def test_questions_that_teach_nothing_are_counted(changed: dict[str, object], why: str) -> None:
    made = await taught(BRIDGE.model_copy(update=changed))
    assert not made.rows
    assert made.left_out == {why: 1}
    assert why in made.describe()


async def test_the_same_seed_gives_the_same_rows_of_every_method() -> None:
    settings = {"methods": ",".join(READ), "seed": 3}
    first, again = [await taught(BRIDGE, **settings) for _ in range(2)]
    assert first.rows == again.rows
    assert {str(row.extra["method"]) for row in first.rows} == set(READ)
    kinds = [(row.extra["method"], row.extra["kind"]) for row in first.rows]
    assert len(set(kinds)) == len(kinds), "of each kind one is taught"
    more = (await taught(BRIDGE, **settings, repeats=6)).rows
    assert len(first.rows) < len(more) == len({row.messages for row in more})
    assert {row.messages for row in first.rows} <= {row.messages for row in more}


async def test_gold_passages_are_hidden_put_in_and_lengthened_as_the_shares_say() -> None:
    settings: dict[str, Any] = {"unanswerable": 0, "complete": 1, "long": 0, "methods": "grounded", "repeats": 9}
    answered = await taught(BRIDGE, **settings)
    assert {kind for kind, _ in replies(answered.rows)} <= {"phrase", "brief", "quote", "prose"}
    silent = await taught(BRIDGE, **{**settings, "unanswerable": 1})
    assert {kind for kind, _ in replies(silent.rows)} == {"abstain", "names"}
    longer = await taught(BRIDGE, passages=[*PASSAGES, *LONG], **{**settings, "long": 1, "long_tokens": 200})
    assert all("It is long ago." in row.messages[0].content for row in longer.rows)


def test_a_sentence_with_the_answer_counts_for_more_than_a_numbered_one() -> None:
    facts = {"supporting_facts": [["Warsaw", 0]]}
    assert hop(WARSAW, BRIDGE.model_copy(update={"metadata": facts})).sentences == ("It lies on the Vistula.",)
    other = BRIDGE.model_copy(update={"metadata": facts, "golden_answers": ("the Rhine",)})
    assert hop(WARSAW, other).sentences == ("Warsaw is a capital.",)
    odd = {"supporting_facts": [["Warsaw", 9], "odd"]}  # what is of no known form says nothing
    assert hop(WARSAW, other.model_copy(update={"metadata": odd})).sentences[0] == "It lies on the Vistula."


@pytest.mark.parametrize("shown", ["Ada Lint (Lisbon, 1902) was a painter.", "Ada Lint was born in Lisbon to a baker."])
@pytest.mark.parametrize("answer", ["Lisbon", "Ada Lint"])
async def test_another_piece_of_the_gold_page_with_the_answer_is_answered_from(shown: str, answer: str) -> None:
    """An answer that is the page's title stands in it too."""
    example = Example(id="1", question="Who was she?", golden_answers=(answer,), metadata={"gold_ids": ["lint"]})
    task = QuestionAnswering(name="made", primary="token F1", loaded=(example,))
    found = ScriptedRetriever([ZOO, Passage(id="lint#2", title="Ada Lint (painter)", text=shown)])
    settings = ReaderLessons(methods="rag", complete=0, long=0, repeats=9)
    made = await demonstrations(task, [example], found, ScriptedRetriever([PAINTER]), settings)
    assert ("phrase", answer) in replies(made.rows)


def acts(oracle: Oracle) -> list[Any]:
    return [actions.read_action(row.messages[-1].content)[0] for row in oracle.rows if row.extra["kind"] != "finish"]


@pytest.mark.parametrize(("example", "query"), [(BRIDGE, "Warsaw"), (CHAIN, "Warsaw river")])
async def test_the_agent_follows_a_bridge_that_a_result_names(example: Example, query: str) -> None:
    oracle, answer = await acted(AGENT, example, APART)
    first, looked, second, read, end, said = acts(oracle)
    assert first == actions.Search(BRIDGE.question, "Nothing is known yet.")
    assert looked.grounded_summarization == "Marie Curie was born in Warsaw. [link_id=1]"
    assert looked.thoughts == "Something is still missing."
    assert second.query == query
    assert read.grounded_summarization.endswith("It lies on the Vistula. [link_id=3]")
    assert read.thoughts == "That is enough to answer."
    assert isinstance(end, actions.Terminate)
    links = "[link_id=3][link_id=1]"
    assert said == actions.GivenAnswer(f"The answer is the Vistula {links}.", f"It stands in {links}.")
    assert PHRASE.extract(answer.text) == "the Vistula"


async def test_the_agent_compares_only_from_both_sides() -> None:
    nearer = Passage(id="same", title="Same", text="Were they born in the same city? Both were born in the city.")
    oracle, answer = await acted(AGENT, COMPARISON, [CURIE, nearer, MEITNER])
    searched = [each.query for each in acts(oracle) if isinstance(each, actions.Search)]
    assert searched == [COMPARISON.question, "Lise Meitner"]
    assert PHRASE.extract(answer.text) == "no"


async def test_the_agent_does_not_search_a_page_that_nothing_names_and_answers_nothing() -> None:
    oracle, _ = await acted(AGENT, BRIDGE, [UNNAMED, ZOO, MEITNER, WARSAW])
    kinds = [row.extra["kind"] for row in oracle.rows]
    assert kinds == ["decide", "summarise", "decide", "finish"]
    assert isinstance(actions.read_action(oracle.rows[2].messages[-1].content)[0], actions.Terminate)
    made = await taught(
        BRIDGE, passages=[UNNAMED, ZOO, MEITNER, WARSAW], methods="search_agent", complete=0, most_passages=2
    )
    assert "finish" not in {kind for kind, _ in replies(made.rows)}, "it is taught behind a long answer alone"


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=4))
def test_results_are_read_back_as_the_prompt_shows_them(texts: list[tuple[str, str]]) -> None:
    """Whatever stands in titles and snippets: they are data, and end neither a string nor an item."""
    links = [actions.ResultItem(i, title, snippet) for i, (title, snippet) in enumerate(texts, start=1)]
    shown = actions.results_code(links, snippet_tokens=1000)
    read = sources(f"PAST\n{shown}\n")
    assert [mark for mark, _ in read] == [f"[link_id={each.link_id}]" for each in links]
    texts = [text for _, text in read]
    again = [actions.ResultItem(each.link_id, each.link_text, text) for each, text in zip(links, texts, strict=True)]
    assert actions.results_code(again, snippet_tokens=1000) == shown
