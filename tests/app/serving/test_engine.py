"""Models and documents that stay open, and the questions that are asked of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from reground.app.options import Offering
from reground.app.serving.engine import Busy, Engine, UnknownName, setup_of
from reground.app.session import Session
from reground.core.budget import Budget
from reground.core.errors import BudgetExceeded, ConfigurationError
from reground.core.language import Message, Reply, Sampling
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from tests.app.serving.served import engine_of


class Closing(ScriptedModel):
    """A model that counts how often it was closed, and how many calls it has at once."""

    closed = 0
    at_once = most_at_once = 0

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.02)
        self.at_once -= 1
        return await super().generate(messages, sampling)

    async def aclose(self) -> None:
        self.closed += 1


def said(messages: Sequence[Message], sampling: Sampling) -> str:
    """A text that depends on all that was asked."""
    return f"<{hash(tuple(message.content for message in messages))}>"


def user(text: str) -> Message:
    return Message(role="user", content=text)


async def test_who_asks_the_same_at_the_same_time_gets_it_replayed(tmp_path: Path) -> None:
    model = Closing(said)
    served = engine_of(tmp_path, model)
    first, second = await asyncio.gather(*(served.ask("", [user("one?")]) for _ in range(2)))
    assert first.text == second.text
    assert first.usage == second.usage
    assert len(model.calls) == 1
    assert not served._same
    await served.ask("", [user("one?")], seed=5)
    assert len(model.calls) == 2


async def test_a_follow_up_becomes_a_question_of_its_own(tmp_path: Path) -> None:
    model = ScriptedModel(["When did Ada Lovelace die?\nBecause ...", "In 1852."])
    turns = [
        Message(role="system", content="Be brief."),
        user("Who was Ada Lovelace?"),
        Message(role="assistant", content="A {mathematician}."),
        user("When did she die?"),
    ]
    found = await engine_of(tmp_path, model).ask("direct/m", turns)
    assert found.trajectory.question == "When did Ada Lovelace die?"
    assert "Ada Lovelace" in model.prompts[0] and "A {mathematician}." in model.prompts[0]
    assert "Be brief" not in model.prompts[0]
    assert found.usage.calls == 2
    assert found.usage.completion == 7 + 2


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("The passage is:\n\nThe passage is:", "Who was Ada Lovelace? and when did she die?"),
        ("", "and when did she die?"),
        ("When did Ada die?", "When did Ada die?"),
    ],
)
async def test_what_is_no_form_of_the_message_is_not_asked(tmp_path: Path, written: str, asked: str) -> None:
    """A model of 135 million parameters wrote "The passage is:" for every follow-up, and that was searched for."""
    turns = [user("Who was Ada Lovelace?"), Message(role="assistant", content="A x."), user("and when did she die?")]
    found = await engine_of(tmp_path, ScriptedModel([written, "In 1852."])).ask("direct/m", turns)
    assert found.trajectory.question == asked


async def test_the_budget_of_a_request_holds_up_to_the_servers(tmp_path: Path) -> None:
    model = ScriptedModel(["a question?", "yes"])
    served = engine_of(tmp_path, model, budget=Budget(calls=5, seconds=60))
    turns = [user("a?"), Message(role="assistant", content="b"), user("c?")]
    for asked, wanted in ((Budget(calls=9, tokens=7000), 4), (Budget(calls=2), 1), (None, 4)):
        model._position = 0
        found = await served.ask("", turns, budget=asked, seed=wanted)
        recorded = (found.trajectory_path.parent / "config.json").read_text()
        assert f'"calls": {wanted}' in recorded
        assert 0 < json.loads(recorded)["budget"]["seconds"] < 60, "the follow-up took some"


async def test_the_time_that_a_follow_up_takes_is_limited_and_told(tmp_path: Path) -> None:
    class Unhurried(ScriptedModel):
        async def generate(self, messages: Sequence[Message], sampling: Sampling, /):
            await asyncio.sleep(0.3)
            return await super().generate(messages, sampling)

    turns = [user("Who was Ada?"), Message(role="assistant", content="A x."), user("When did she die?")]
    served = engine_of(tmp_path, Unhurried(lambda messages, sampling: "When did Ada die?"))
    for _ in ("asked", "replayed"):
        found = await served.ask("", turns)
        assert found.seconds > 0.55
    with pytest.raises(BudgetExceeded, match="the time budget"):
        await served.ask("", turns, budget=Budget(seconds=0.5))


async def test_a_question_that_is_given_up_leaves_its_place(tmp_path: Path) -> None:
    served = engine_of(tmp_path, Closing(said), concurrency=1)
    asked = asyncio.create_task(served.ask("", [user("one?")]))
    await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (await served.ask("", [user("two?")])).text
    assert (served.working, served.waiting, len(served._same)) == (0, 0, 0)


async def test_wrong_names_and_empty_questions_are_refused(tmp_path: Path) -> None:
    served = engine_of(tmp_path, ScriptedModel([]))
    with pytest.raises(UnknownName, match="direct/m"):
        await served.ask("direct/n", [user("a?")])
    for turns in ([], [user("  ")], [Message(role="assistant", content="a")]):
        with pytest.raises(ConfigurationError, match="no question"):
            await served.ask("", turns)


async def test_what_is_offered_has_a_name_for_each_method_model_and_corpus(tmp_path: Path) -> None:
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
        served = Engine(session)
        assert next(iter(served.offers)) == "rag/openai/one@docs"
        assert len(served.offers) == 12
        assert {"rag/two@others", "direct/llamacpp/one@docs"} <= set(served.offers)
        assert [p.text for p in await served.corpus("others").retrieve("river", k=1)] == [
            "The river of notes is the Vltava."
        ]
        with pytest.raises(UnknownName, match="no documents are called 'other'; did you mean others"):
            served.corpus("other")


async def test_what_cannot_be_offered_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    wrong = [
        (Offering(method=["rag"]), "needs documents"),
        (Offering(method=["ragg"]), "rag"),
        (Offering(corpus=[str(tmp_path), f"{tmp_path.name}={tmp_path}"]), "two corpora"),
        (Offering(corpus=["docs"], web="ddgs"), "give one of them"),
        (Offering(method=["direct"], model=["no/such"], support="wrods"), "no check of support"),
        (Offering(method=["direct"], model=["no/such"], rerank="wrong"), "wrong"),
        (Offering(method=["direct"], model=["gguf/smollm2", "opnai/x"]), "did you mean openai"),
        (Offering(method=["direct"], settings={"temperature": "warm"}), "temperature"),
        (Offering(method=["direct"], model=["openai/x"], budget=Budget(usd=1)), "--price"),
    ]
    for order, why in wrong:
        with pytest.raises(ConfigurationError, match=why):
            setup_of(order)


async def test_who_asks_what_is_in_work_waits_without_taking_a_place(tmp_path: Path) -> None:
    model = Closing(said)
    served = engine_of(tmp_path, model, concurrency=2, waiting=3)
    same = [asyncio.create_task(served.ask("", [user("one?")])) for _ in range(4)]
    await asyncio.sleep(0.005)
    assert (served.working, served.waiting) == (1, 3)
    other = asyncio.create_task(served.ask("", [user("other?")]))
    await asyncio.sleep(0.005)
    assert served.working == 2
    with pytest.raises(Busy):
        await served.ask("", [user("one?")])
    assert len({each.text for each in await asyncio.gather(*same, other)}) == 2
    assert (len(model.calls), served.working, served.waiting, len(served._same)) == (2, 0, 0, 0)


async def test_what_one_budget_cut_is_not_replayed_under_another(tmp_path: Path) -> None:
    def cut(messages: Sequence[Message], sampling: Sampling) -> Reply:
        return Reply(text=" ".join(["word"] * min(100, sampling.max_tokens)))

    served = engine_of(tmp_path, ScriptedModel(cut))
    found = [
        await served.ask("", [user("one?")], budget=budget)
        for budget in (Budget(completion=7), None, Budget(tokens=60), Budget(completion=30), Budget(completion=7))
    ]
    assert [each.usage.completion for each in found][:2] == [7, 100]
    assert [each.usage.completion for each in found][3:] == [30, 7]
    assert found[0].text == found[4].text


async def test_two_conversations_that_come_to_one_question_at_once_pay_for_it_once(tmp_path: Path) -> None:
    model = Closing(said)
    served = engine_of(tmp_path, model)
    systems = [Message(role="system", content=text) for text in ("Be brief.", "Be kind.")]
    first, second = await asyncio.gather(*(served.ask("", [each, user("one?")]) for each in systems))
    assert first.text == second.text
    assert len(model.calls) == 1
    assert not served._same
