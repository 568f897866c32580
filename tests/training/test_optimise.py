"""PPO on a text bandit: it finds the best replies, resumes after a kill, and tells of its faults."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

import torch

from reground.core.errors import ConfigurationError, ModelError, TrainingFailed
from reground.training.metrics import METRICS
from reground.training.ppo.judging import Judged
from reground.training.ppo.optimise import Metrics, Optimiser
from reground.training.ppo.policy import Policy
from reground.training.ppo.settings import Optimising
from reground.training.weights import load_base
from tests.training.tiny import tiny_llama, tiny_t5

WANTED = {"a": "c", "b": "d"}
SETTINGS = Optimising(
    iterations=12, episodes=64, batch=16, learning_rate=0.004, reply_tokens=3, validate_every=4, no_end=None,
    collapse_invalid=1.1, collapse_kl=1e9, beta=0.0, target=None, threads=1,
)  # fmt: skip


async def right(question: str, text: str) -> Judged:
    """1 for a reply that begins with the letter that the question wants."""
    await asyncio.sleep(0)
    return {"score": float(text.split(" ")[0] == WANTED[question]), "words": float(len(text.split()))}


def optimiser(out: Path, settings: Optimising = SETTINGS, *, make=tiny_llama, judge=right) -> Optimiser[str]:
    model, tokenizer = load_base(str(make(out / "base")))
    torch.manual_seed(0)
    return Optimiser(
        Policy(model, tokenizer), settings, prompt=lambda question: f"{question} x {question}", judge=judge,
        questions=["a", "b"], validation=["a", "b"], out=out / "fit",
    )  # fmt: skip


def changed(**values: object) -> Optimising:
    return Optimising(**{**vars(SETTINGS), **values})


def curve(out: Path) -> list[Metrics]:
    rows = [json.loads(line) for line in (out / "fit" / METRICS).read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize("make", [tiny_llama, tiny_t5])
def test_a_bandit_is_solved(make, tmp_path: Path) -> None:
    told: list[int] = []
    made = optimiser(tmp_path, changed(iterations=24), make=make)
    policy = made.train(lambda number, metrics: told.append(number))
    rows = curve(tmp_path)
    assert told == list(range(1, 25))
    assert rows[0]["reward"] < 0.3
    assert max(row["reward"] for row in rows[-6:]) > 0.9
    prompts = policy.prompts(["a x a", "b x b"], most=16)
    replies = policy.texts(policy.sample(prompts, most=3, temperature=0))
    assert [text.split()[0] for text in replies] == ["c", "d"]
    assert {"kl", "entropy", "length", "ended", "words", "clipped", "value_loss", "explained_variance"} <= rows[
        0
    ].keys()


def test_the_same_seed_gives_the_same_curve_and_another_one_another(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        optimiser(tmp_path / name, changed(iterations=3, seed=seed)).train()
    assert curve(tmp_path / "one") == curve(tmp_path / "same")
    assert curve(tmp_path / "one") != curve(tmp_path / "other")


def test_a_killed_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    optimiser(tmp_path / "whole", changed(iterations=8)).train()
    command = [sys.executable, "-m", "tests.training.test_optimise", str(tmp_path / "cut")]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert len(curve(tmp_path / "cut")) == 5
    optimiser(tmp_path / "cut", changed(iterations=8)).train()
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")


def test_a_collapse_is_seen_and_the_best_weights_come_back(tmp_path: Path) -> None:
    """Every reply is invalid once training has moved the policy; the weights before that are the best."""
    judged = 0

    async def breaks(question: str, text: str) -> Judged:
        nonlocal judged
        judged += 1
        return {"score": 0.5 if judged <= 2 else 0.0, "invalid": float(66 < judged <= 130)}

    settings = changed(iterations=3, collapse_invalid=0.5)
    policy = optimiser(tmp_path, settings, judge=breaks)
    before = {name: each.clone() for name, each in policy.policy.named_parameters()}
    after = policy.train()
    rows = curve(tmp_path)
    assert [row.get("collapsed", 0.0) for row in rows] == [0.0, 1.0, 0.0]
    assert rows[2]["learning_rate"] == pytest.approx(0.004 * (1 - 2 / 3) / 2)
    assert all(torch.equal(each, before[name]) for name, each in after.named_parameters())


def test_a_policy_that_collapses_again_and_again_ends_the_training(tmp_path: Path) -> None:
    async def invalid(question: str, text: str) -> Judged:
        return {"score": 0.0, "invalid": 1.0}

    with pytest.raises(TrainingFailed, match=r"collapsed in iteration 4 .*100% of the replies unusable"):
        optimiser(tmp_path, changed(collapse_invalid=0.5), judge=invalid).train()


def test_a_fault_of_the_judge_ends_the_training_and_is_told(tmp_path: Path) -> None:
    async def away(question: str, text: str) -> Judged:
        raise ModelError("the reader is away")

    with pytest.raises(ModelError, match="the reader is away"):
        optimiser(tmp_path, judge=away).train()


def test_scores_that_are_not_numbers_end_the_training(tmp_path: Path) -> None:
    async def nothing(question: str, text: str) -> Judged:
        return {"score": float("nan")}

    with pytest.raises(TrainingFailed, match="loss is nan in iteration 1: begin again with a lower learning rate"):
        optimiser(tmp_path, judge=nothing).train()


def test_a_training_warns_of_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    optimiser(tmp_path, changed(iterations=1, episodes=4, batch=4)).train()
    assert not [warned for warned in recwarn if "reground" in warned.filename]


@pytest.mark.parametrize("wrong", [{"iterations": 0}, {"learning_rate": float("nan")}, {"temperature": 0.0}])
def test_settings_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        changed(**wrong)


if __name__ == "__main__":  # the process that is killed

    def die(number: int, metrics: Metrics) -> None:
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    optimiser(Path(sys.argv[1]), changed(iterations=8)).train(die)
