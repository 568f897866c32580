"""The Python door: ask, resume, replay, budgets, traces."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import reground
from reground.app.options import Ask
from reground.app.session import Session
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, DataError, ModelError
from reground.core.evidence import Passage
from reground.core.trajectory import ChooseStep, GenerateStep, RetrieveStep, read_trajectories
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI

RETRIEVER = ScriptedRetriever([Passage(id="a", title="A", text="The Danube flows through Vienna.")])


def test_ask_gives_the_answer_its_citations_and_a_readable_trajectory(tmp_path: Path) -> None:
    model = ScriptedModel(["The Danube [1]."])
    result = reground.ask("Which river?", method="rag", model=model, corpus=RETRIEVER, home=tmp_path)
    assert str(result) == "The Danube [1]."
    assert [citation.passage_id for citation in result.citations] == ["a"]
    (read,) = read_trajectories(result.trajectory_path)
    assert read == result.trajectory
    assert result.usage.calls == 1


def test_the_same_question_again_is_replayed_and_paid_for_once(tmp_path: Path) -> None:
    question = {"method": "direct", "home": tmp_path}
    first = reground.ask("Why?", model=ScriptedModel(["Because."]), **question)
    silent = ScriptedModel([])
    second = reground.ask("Why?", model=silent, **question)
    assert (second.text, second.usage, silent.calls) == (first.text, first.usage, [])
    assert reground.ask("Why?", model=ScriptedModel(["So."]), **question, fresh=True).text == "So."


def test_a_seed_makes_samples_the_same_everywhere_and_another_one_makes_another_run(tmp_path: Path) -> None:
    def seeds(home: str, seed: int | None) -> list[int | None]:
        model = ScriptedModel(lambda messages, sampling: "Answer: yes")
        settings = {"temperature": 0.7}
        reground.ask("Why?", method="direct", model=model, settings=settings, home=tmp_path / home, seed=seed)
        return [sampling.seed for _, sampling in model.calls]

    here = seeds("here", 1)
    assert here != [None]
    assert seeds("there", 1) == here
    assert seeds("here", 1) == []
    assert seeds("here", 2) not in ([], here)
    assert seeds("here", None) == [None]


def test_after_a_failure_the_same_call_goes_on_where_it_was(tmp_path: Path) -> None:
    question = {"method": "cot_rag", "corpus": RETRIEVER, "form": "phrase", "home": tmp_path}
    with pytest.raises(ModelError):
        reground.ask("Which river?", model=ScriptedModel(["Thinking.", ModelError("down")]), **question)
    (path,) = tmp_path.glob("ask-*/trajectory.jsonl")
    (trajectory,) = read_trajectories(path)
    assert trajectory.failure is not None and trajectory.failure.message == "down"
    model = ScriptedModel(["Answer: the Danube"])
    assert reground.ask("Which river?", model=model, **question).text == "Answer: the Danube"
    assert len(model.calls) == 1


def test_a_trace_file_collects_trajectories(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    for question in ("One?", "Two?"):
        reground.ask(question, method="direct", model=ScriptedModel(["Yes."]), home=tmp_path, trace=trace)
    assert [trajectory.question for trajectory in read_trajectories(trace)] == ["One?", "Two?"]


@pytest.mark.parametrize("held", ["# Notes\n\nkeep this\n", "{}\n", '{"kind":"question"}\n{"version":2}\n', "x"])
def test_a_file_of_something_else_is_no_trace_and_no_model_is_asked(tmp_path: Path, held: str) -> None:
    (notes := tmp_path / "notes.md").write_text(held)
    model = ScriptedModel(["Yes."])
    with pytest.raises(ConfigurationError, match=r"notes\.md holds something else than trajectories"):
        reground.ask("One?", method="direct", model=model, home=tmp_path, trace=notes)
    assert (notes.read_text(), model.prompts) == (held, [])


@pytest.mark.parametrize(
    "lines", [(b'{"version":2,"id":"ask-1","que',), (b"\0\xff\n", b"[" * 5000 + b"\n"), (b"{}\n", b"\0")]
)
def test_damaged_lines_of_a_trace_are_set_aside_before_a_question(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: tuple[bytes, ...]
) -> None:
    trace = tmp_path / "trace.jsonl"
    about = {"method": "direct", "home": tmp_path, "trace": trace}
    for question in ("One?", "Two?"):
        reground.ask(question, model=ScriptedModel(["Yes."]), **about)
        with trace.open("ab") as file:
            file.writelines(lines)
    reground.ask("Three?", model=ScriptedModel(["Yes."]), **about)
    assert [trajectory.question for trajectory in read_trajectories(trace)] == ["One?", "Two?", "Three?"]
    aside = (tmp_path / "trace.jsonl.damaged").read_bytes()
    assert aside == b"".join(line.removesuffix(b"\n") + b"\n" for line in lines) * 2
    assert len(caplog.records) == 2 * len(lines)


@pytest.mark.parametrize("tokens", [900, 20_000])
def test_a_token_budget_is_a_limit_and_leaves_the_method_as_it_is(tokens: int, tmp_path: Path) -> None:
    retriever = ScriptedRetriever([Passage(id=str(i), text=f"The Danube number {i}.") for i in range(9)])
    result = reground.ask(
        "Which Danube?", method="rag", corpus=retriever, home=tmp_path, budget=Budget(tokens=tokens),
        model=ScriptedModel(lambda messages, sampling: "The Danube [1]."),
    )  # fmt: skip
    assert [step.k for step in result.trajectory.steps if isinstance(step, RetrieveStep)] == [5]


@pytest.mark.parametrize(
    ("question", "options", "error", "says"),
    [
        ("", {}, ConfigurationError, "empty"),
        ("  \n", {}, ConfigurationError, "empty"),
        ("Why?", {"corpus": "nowhere"}, DataError, "nowhere"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    question: str, options: dict[str, Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        reground.ask(question, model=ScriptedModel(["x"]), home=tmp_path, **options)


async def test_a_question_that_is_asked_several_times_at_once_is_paid_for_once(tmp_path: Path) -> None:
    asked = 0

    async def model(prompt: str) -> str:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)
        return "Four."

    four = (reground.aask("Two and two?", method="direct", model=model, home=tmp_path) for _ in range(4))
    assert {result.text for result in await asyncio.gather(*four)} == {"Four."}
    assert asked == 1


async def test_a_session_opens_once_and_answers_many_questions_as_ask_does(tmp_path: Path) -> None:
    class Counting(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    model = Counting(["One.", "Two."])
    options = Ask(question="", method="direct", model=model, home=tmp_path)
    async with Session.open(options) as session:
        texts = [(await session.ask(question)).text for question in ("First?", "Second?", "First?")]
        assert (texts, model.closed) == (["One.", "Two.", "One."], 0)
    assert model.closed == 1
    again = await reground.aask("Second?", method="direct", model=ScriptedModel([]), home=tmp_path)
    assert again.text == "Two."


async def test_the_judge_is_the_model_that_the_critic_names_and_the_generator_writes(tmp_path: Path) -> None:
    said = iter(["One thought.", "Another thought.", "Answer: yes"])
    writer = ScriptedModel(lambda messages, sampling: next(said))
    judge = MockOpenAI(lambda body: "yes" if "Another" in body["messages"][-1]["content"] else "no", models=["judge"])
    async with judge as server:
        result = await reground.aask(
            "Is it?",
            method="cr_planner",
            model=writer,
            form="phrase",
            settings={"critic": "prompted:openai/judge", "retrieval": False, "candidates": 2, "max_steps": 2},
            model_options=ModelOptions(base_url=server.url),
            home=tmp_path,
        )
    calls = [step for step in result.trajectory.steps if isinstance(step, GenerateStep)]
    assert {step.model for step in calls if step.name.startswith("judge")} == {"openai/judge"}
    assert {step.model for step in calls if not step.name.startswith("judge")} == {writer.name}
    choice = next(s for s in result.trajectory.steps if isinstance(s, ChooseStep) and s.name == "rationale")
    assert (choice.by, choice.chosen) == ("prompted:pointwise openai/judge", 1)


async def test_a_judge_that_cannot_be_had_is_told_of_before_anything_is_asked(tmp_path: Path) -> None:
    writer = ScriptedModel([])
    settings = {"critic": "prompted:opneai/judge", "retrieval": False}
    with pytest.raises(ConfigurationError, match="did you mean openai"):
        await reground.aask("Is it?", method="cr_planner", model=writer, settings=settings, home=tmp_path)
    assert not writer.calls
