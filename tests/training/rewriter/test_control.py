"""RLOO and GRPO on the bandit that PPO solves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra [train]")

from reground.core.errors import ConfigurationError
from reground.evaluation.task import Example
from reground.training.ppo.judging import Judged
from reground.training.ppo.settings import Optimising
from reground.training.rewriter.control import Control, fit_control
from tests.training.tiny import tiny_llama, tiny_t5

SETTINGS = Optimising(
    iterations=10,
    episodes=32,
    batch=16,
    epochs=2,
    learning_rate=0.004,
    reply_tokens=2,
    no_end=None,
    beta=0.0,
    threads=1,
)
QUESTIONS = [Example(id=letter, question=letter, golden_answers=("c",)) for letter in "ab"]


async def begins(example: Example, text: str) -> Judged:
    """1 for a reply that begins with an early letter."""
    return {"score": float(text[:1] in set("abcdefgh"))}


@pytest.mark.parametrize("kind", ["rloo", "grpo"])
def test_the_reward_rises(kind: Control, tmp_path: Path) -> None:
    base = str(tiny_llama(tmp_path / "base"))
    place = fit_control(tmp_path, base, kind, SETTINGS, begins, questions=QUESTIONS)
    assert (place / "config.json").is_file()
    rows = [json.loads(line) for line in (tmp_path / "fit" / kind / "metrics.jsonl").read_text().splitlines()]
    rewards = [row["reward"] for row in rows if "reward" in row]
    assert (len(rows), len(rewards)) == (40, 10)
    assert sum(rewards[-3:]) / 3 > rewards[0] + 0.2


def test_what_cannot_be_a_control(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="multiple of --batch and of 4"):
        fit_control(tmp_path, "x", "rloo", Optimising(episodes=30, batch=15), begins, questions=QUESTIONS)
    with pytest.raises(ConfigurationError, match="rloo is for decoder-only models"):
        fit_control(tmp_path, str(tiny_t5(tmp_path / "t5")), "rloo", SETTINGS, begins, questions=QUESTIONS)
