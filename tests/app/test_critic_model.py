"""A prompted critic with a model of its own, asked through the one call that everything goes through."""

from __future__ import annotations

from pathlib import Path

import pytest

import reground
from reground.core.errors import ConfigurationError
from reground.core.trajectory import ChooseStep, GenerateStep
from reground.models.options import ModelOptions
from reground.models.scripted import ScriptedModel
from reground.testing.openai_server import MockOpenAI


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
