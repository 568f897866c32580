"""Models and documents that stay open, and the questions that are asked of them."""

import asyncio
import json

import pytest

from reground.app.options import Offering
from reground.app.serving.engine import Busy, Engine, UnknownName, open_engine, setup_of
from reground.app.session import Session
from reground.core.budget import Budget
from reground.core.errors import BudgetExceeded, ConfigurationError
from reground.core.language import Message
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from reground.retrieval.index import build_index
from tests.app.serving.served import Slow, engine_of


def unhurried(seconds=0.02):
    """A model whose text depends on all that was asked."""
    return Slow(lambda messages, sampling: f"<{hash(tuple(each.content for each in messages))}>", seconds=seconds)


def user(text):
    return Message(role="user", content=text)


def follow_up(text):
    return [user("Who was Ada Lovelace?"), Message(role="assistant", content="A {mathematician}."), user(text)]


def is_idle(engine):
    return (engine.working, engine.waiting, len(engine._same)) == (0, 0, 0)


async def test_who_asks_the_same_at_the_same_time_gets_it_replayed(tmp_path):
    model = unhurried()
    engine = engine_of(tmp_path, model)
    first, second = await asyncio.gather(*(engine.ask("", [user("one?")]) for _ in range(2)))
    assert (first.text, first.usage, len(model.calls)) == (second.text, second.usage, 1)
    assert is_idle(engine)
    await engine.ask("", [user("one?")], seed=5)
    assert len(model.calls) == 2


async def test_a_follow_up_becomes_a_question_of_its_own(tmp_path):
    model = ScriptedModel(["When did Ada Lovelace die?\nBecause ...", "In 1852."])
    turns = [Message(role="system", content="Be brief."), *follow_up("When did she die?")]
    found = await engine_of(tmp_path, model).ask("direct/m", turns)
    assert found.trajectory.question == "When did Ada Lovelace die?"
    assert "Ada Lovelace" in model.prompts[0] and "A {mathematician}." in model.prompts[0]
    assert "Be brief" not in model.prompts[0]
    assert (found.usage.calls, found.usage.completion) == (2, 7 + 2)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("The passage is:\n\nThe passage is:", "Who was Ada Lovelace? and when did she die?"),
        ("", "and when did she die?"),
        ("When did Ada die?", "When did Ada die?"),
    ],
)
async def test_what_is_no_form_of_the_message_is_not_asked(tmp_path, written, asked):
    """A model of 135 million parameters wrote "The passage is:" for every follow-up, and that was searched for."""
    engine = engine_of(tmp_path, ScriptedModel([written, "In 1852."]))
    assert (await engine.ask("direct/m", follow_up("and when did she die?"))).trajectory.question == asked


async def test_the_budget_of_a_request_holds_up_to_the_servers(tmp_path):
    model = ScriptedModel(["a question?", "yes"])
    engine = engine_of(tmp_path, model, budget=Budget(calls=5, seconds=60))
    for asked, left in ((Budget(calls=9, tokens=7000), 4), (Budget(calls=2), 1), (None, 4)):
        model._position = 0
        found = await engine.ask("", follow_up("c?"), budget=asked, seed=left)
        budget = json.loads((found.trajectory_path.parent / "config.json").read_text())["budget"]
        assert budget["calls"] == left
        assert 0 < budget["seconds"] < 60, "the follow-up took some"


async def test_the_time_that_a_follow_up_takes_is_limited_and_told(tmp_path):
    engine = engine_of(tmp_path, Slow(lambda messages, sampling: "When did Ada die?", seconds=0.3))
    for _ in ("asked", "replayed"):
        assert (await engine.ask("", follow_up("When did she die?"))).seconds > 0.55
    with pytest.raises(BudgetExceeded, match="the time budget"):
        await engine.ask("", follow_up("When did she die?"), budget=Budget(seconds=0.5))


async def test_who_asks_what_is_in_work_waits_without_taking_a_place(tmp_path):
    model = unhurried()
    engine = engine_of(tmp_path, model, concurrency=2, waiting=3)
    same = [asyncio.create_task(engine.ask("", [user("one?")])) for _ in range(4)]
    await asyncio.sleep(0.005)
    assert (engine.working, engine.waiting) == (1, 3)
    other = asyncio.create_task(engine.ask("", [user("other?")]))
    await asyncio.sleep(0.005)
    assert engine.working == 2
    with pytest.raises(Busy):
        await engine.ask("", [user("one?")])
    assert len({each.text for each in await asyncio.gather(*same, other)}) == len(model.calls) == 2
    assert is_idle(engine)


@pytest.mark.parametrize("indexed", [False, True])
async def test_files_that_change_come_and_go_are_seen_at_the_next_question(indexed, tmp_path):
    docs, place = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    (docs / "crane.md").write_text("The crane lifts 740 kg.")
    if indexed:
        build_index(docs, place)
    options = Offering(
        model=["none"], corpus=[str(place if indexed else docs)], retrieval="bm25", home=tmp_path / "home"
    )
    async with Session.open(setup_of(options)) as session, open_engine(session, options) as engine:
        session.look_every = 0

        async def texts(query):
            if indexed:
                build_index(docs, place)
            return [each.text for each in await (await engine.corpus()).retrieve(query, k=5)]

        assert await texts("crane") == ["The crane lifts 740 kg."]
        (docs / "crane.md").write_text("The crane lifts 990 kg.")
        (docs / "mast.md").write_text("The mast is of steel.")
        assert await texts("crane") == ["The crane lifts 990 kg."]
        assert await texts("mast") == ["The mast is of steel."]
        (docs / "mast.md").unlink()
        assert await texts("mast") == []
        if not indexed:
            (docs / "crane.md").unlink()  # an empty folder is a mistake: what was read stays
            assert await texts("crane") == ["The crane lifts 990 kg."]


async def test_what_is_offered_has_a_name_for_each_method_model_and_corpus(tmp_path):
    for name in ("docs", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"The river of {name} is the Vltava.")
    order = Offering(
        method=["rag", "direct"],
        model=["openai/one", "llamacpp/one", "openai/two"],
        model_options=ModelOptions(base_url="http://127.0.0.1:1"),
        corpus=[str(tmp_path / "docs"), f"others={tmp_path / 'notes'}"],
        home=tmp_path / "runs",
    )
    async with Session.open(setup_of(order)) as session:
        engine = Engine(session)
        assert next(iter(engine.offers)) == "rag/openai/one@docs"
        assert len(engine.offers) == 12
        assert {"rag/two@others", "direct/llamacpp/one@docs"} <= set(engine.offers)
        (passage,) = await (await engine.corpus("others")).retrieve("river", k=1)
        assert passage.text == "The river of notes is the Vltava."
        with pytest.raises(UnknownName, match="no documents are called 'other'; did you mean others"):
            await engine.corpus("other")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"method": ["rag"]}, "needs documents"),
        ({"method": ["ragg"]}, "rag"),
        ({"corpus": ["docs", "docs=other"]}, "two corpora"),
        ({"corpus": ["docs"], "web": "ddgs"}, "give one of them"),
        ({"model": ["no/such"], "support": "wrods"}, "no check of support"),
        ({"model": ["no/such"], "rerank": "wrong"}, "wrong"),
        ({"model": ["gguf/smollm2", "opnai/x"]}, "did you mean openai"),
        ({"settings": {"temperature": "warm"}}, "temperature"),
        ({"model": ["openai/x"], "budget": Budget(usd=1)}, "--price"),
    ],
)
def test_what_cannot_be_offered_is_refused_before_anything_is_served(options, why):
    with pytest.raises(ConfigurationError, match=why):
        setup_of(Offering(**{"method": ["direct"], **options}))
