"""PPO on a text bandit: it finds the best replies, resumes after a kill, and tells of its faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

import torch

from reground.core.errors import ConfigurationError, ModelError, TrainingFailed
from reground.training.fitting import METRICS, read_metrics
from reground.training.ppo import equations as ppo
from reground.training.ppo.optimise import Judged, Metrics, Optimiser, Rollout
from reground.training.ppo.policy import Policy, Prompts, Replies
from reground.training.settings import Optimising
from reground.training.weights import adapted, load_base
from tests.training.tiny import tiny_llama, tiny_t5

JUDGES = ThreadPoolExecutor(1)
WANTED = {"a": "c", "b": "d"}
SETTINGS = Optimising(
    iterations=12, episodes=64, batch=16, learning_rate=0.004, reply_tokens=3, validate_every=4, no_end=None,
    collapse_invalid=1.1, collapse_kl=1e9, collapse_length=1e9, beta=0.0, target=None, threads=1,
)  # fmt: skip


def right(question: str, text: str) -> Judged:
    """1 for a reply that begins with the letter that the question wants."""
    return {"score": float(text.split(" ")[0] == WANTED[question]), "words": float(len(text.split()))}


def optimiser(
    out: Path, settings: Optimising = SETTINGS, *, make=tiny_llama, judge=right, rank: int = 0, family=Policy
) -> Optimiser[str]:
    model, tokenizer = load_base(str(make(out / "base")))
    torch.manual_seed(0)
    return Optimiser(
        policy=family(adapted(model, rank), tokenizer, value=settings.value), settings=settings,
        prompt=lambda question: f"{question} x {question}", judge=partial(JUDGES.submit, judge),
        questions=["a", "b"], validation=["a", "b"], out=out / "fit",
    )  # fmt: skip


def changed(**values: object) -> Optimising:
    return Optimising(**{**vars(SETTINGS), **values})


def curve(out: Path) -> list[Metrics]:
    rows = read_metrics(out / "fit" / METRICS)
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "precision"), [(tiny_llama, "float32"), (tiny_t5, "float32"), (tiny_llama, "bfloat16")]
)
def test_a_bandit_is_solved(make, precision: str, tmp_path: Path) -> None:
    told: list[int] = []
    made = optimiser(tmp_path, changed(iterations=24, precision=precision), make=make)
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


def test_how_hard_a_question_is_says_nothing_beside_other_replies_to_it(tmp_path: Path) -> None:
    """One question pays a hundred more for everything; with several replies to each, the other one is learnt too."""
    asked: list[str] = []

    def uneven(question: str, text: str) -> Judged:
        asked.append(question)
        return {"score": right(question, text)["score"] + 100 * (question == "a")}

    made = optimiser(tmp_path, changed(iterations=20, replies=8), judge=uneven)
    made.train()
    trained = asked[2 : 2 + 64]  # the first two are the validation
    assert [trained.count(each) for each in "ab"] == [32, 32]
    assert made.state.best == 51.0  # every reply is right: the mean of 101 and 1
    used = {row["used"] for row in curve(tmp_path)}
    assert min(used) < 1 and {count * 8 for count in used} <= set(range(9)), "groups that score the same are left out"
    with pytest.raises(ConfigurationError, match="64 of 5"):
        changed(replies=5)


@pytest.mark.parametrize("replies", [1, 4])
def test_where_no_reply_is_better_than_another_nothing_moves(replies: int, tmp_path: Path) -> None:
    """A policy off its reference would else be pushed back to it, with the KL term blown up by whitening."""
    made = optimiser(tmp_path, changed(iterations=2, replies=replies, beta=0.1), judge=lambda *_: {"score": 0.0})
    with torch.no_grad():
        made.policy.model.lm_head.weight.add_(0.01)
    before = [each.clone() for each in made.trained]
    made.train()
    assert [row["used"] for row in curve(tmp_path)] == [0.0, 0.0]
    assert all(map(torch.equal, before, made.trained))


def test_a_step_of_grpo_follows_the_gradient_of_its_equation_and_learns(tmp_path: Path) -> None:
    """Equation 3 by its sums, with the divergence of equation 4 from a reference that the policy has left."""
    made = optimiser(tmp_path, changed(iterations=20, replies=8, algorithm="grpo", beta=0.5, max_norm=1e9))
    with torch.no_grad():
        made.policy.model.lm_head.weight.mul_(1.1)
    rollout, before = made._roll_out(), [each.detach().clone() for each in made.trained]
    now = made.policy(rollout.prompts, rollout.replies, 1.0).logprobs
    apart = (rollout.columns["reference"] - now) * rollout.replies.mask
    gained = rollout.advantages[:, :1] * (now - now.detach()).exp() - 0.5 * (apart.exp() - apart - 1)
    objective = ((gained * rollout.replies.mask).sum(-1) / rollout.replies.lengths).mean()
    gradients = torch.autograd.grad(objective, made.trained, allow_unused=True)
    made.optimizer = torch.optim.SGD(made.trained, lr=1.0)
    made._step(rollout, torch.arange(len(now)), first=True)
    for was, moved, gradient in zip(before, made.trained, gradients, strict=True):
        assert torch.allclose(moved, was if gradient is None else was + gradient, atol=1e-5)
    learning = optimiser(tmp_path, changed(iterations=20, replies=8, algorithm="grpo"))
    learning.train()
    assert learning.state.best == 1.0
    assert not learning.policy.head.weight.any(), "there is no value model"
    with pytest.raises(ConfigurationError, match="grpo"):
        changed(algorithm="grpo")


def test_a_seed_gives_a_curve_and_the_learning_rate_falls_linearly(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        made = optimiser(tmp_path / name, changed(iterations=4, episodes=32, seed=seed))
        made.train()
    assert made.optimizer.param_groups[0]["eps"] == 1e-5
    assert curve(tmp_path / "one") == curve(tmp_path / "same") != curve(tmp_path / "other")
    rates = [row["learning_rate"] for row in curve(tmp_path / "one")]
    assert rates == pytest.approx([0.004, 0.003, 0.002, 0.001])


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny_llama, tiny_t5])
def test_a_killed_training_goes_on_as_if_nothing_had_happened(make, tmp_path: Path) -> None:
    optimiser(tmp_path / "whole", changed(iterations=8), make=make).train()
    command = [sys.executable, "-m", "tests.training.test_optimise", str(tmp_path / "cut"), make.__name__]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert len(curve(tmp_path / "cut")) == 5
    optimiser(tmp_path / "cut", changed(iterations=8), make=make).train()
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")


@pytest.mark.parametrize("limit", [{"collapse_invalid": 0.5}, {"collapse_kl": 1e-9}])
def test_a_policy_that_collapses_ends_the_training(limit: dict[str, float], tmp_path: Path) -> None:
    def invalid(question: str, text: str) -> Judged:
        return {"score": -float(len(text)), "invalid": 1.0}

    made = optimiser(tmp_path, changed(**limit), judge=invalid)
    with pytest.raises(TrainingFailed, match=r"collapsed in iteration \d .*100% of the replies unusable"):
        made.train()
    first, *_ = (each.detach() for each in made.best().model.parameters())
    assert torch.equal(first, next(load_base(str(tmp_path / "base"))[0].parameters())), "the best were the first"


@pytest.mark.parametrize(
    ("score", "error", "why"),
    [
        (ModelError("the reader is away"), ModelError, "the reader is away"),
        (float("nan"), TrainingFailed, "reward of a reply in iteration 1 is not a finite number"),
    ],
)
def test_a_fault_of_the_judge_ends_the_training_and_is_told(score, error, why: str, tmp_path: Path) -> None:
    def wrong(question: str, text: str) -> Judged:
        if isinstance(score, Exception):
            raise score
        return {"score": score}

    with pytest.raises(error, match=why):
        optimiser(tmp_path, judge=wrong).train()


def test_what_still_waits_to_be_judged_when_a_training_ends_is_cancelled(tmp_path: Path) -> None:
    first, last = Future[Judged](), Future[Judged]()
    first.set_exception(ModelError("the reader is away"))
    made = optimiser(tmp_path)
    made.judge = lambda question, text: first if question == "a" else last
    with pytest.raises(ModelError, match="away"):
        made.train()
    assert last.cancelled()


@pytest.mark.parametrize("value", ["shared", "copy"])
@pytest.mark.parametrize(("make", "rank"), [(tiny_llama, 0), (tiny_llama, 4), (tiny_t5, 0), (tiny_t5, 4)])
def test_every_form_of_policy_and_value_model_is_trained_and_restored(make, rank, value, tmp_path: Path) -> None:
    settings = changed(iterations=2, episodes=16, value=value, temperature=0.7, beta=0.1)
    made = optimiser(tmp_path, settings, make=make, rank=rank, judge=lambda _, text: {"score": len(text)})
    made.train()
    assert all(row["update_kl"] > 0 for row in curve(tmp_path)), "the policy moves"
    again = optimiser(tmp_path, changed(**{**vars(settings), "iterations": 3}), make=make, rank=rank)
    again.train()
    assert len(curve(tmp_path)) == 3


class Forgetful(Policy):
    """Scores what it trains on unlike what it sampled."""

    def forward(self, prompts, replies, temperature, **more):
        return super().forward(prompts, replies, 1.0 if torch.is_grad_enabled() else temperature, **more)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_first_ratio_that_is_not_one_ends_the_training(precision: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match=r"the first ratio of iteration 1 is .* and not 1"):
        optimiser(tmp_path, changed(temperature=0.7, precision=precision), family=Forgetful).train()


def weighed(made: Optimiser[str], scores: torch.Tensor) -> Rollout:
    """Two replies by hand: one with an end, one without; each token is a nat off the reference."""
    mask = torch.tensor([[True, True, False], [True, True, True]])
    replies = Replies(torch.ones(2, 3, dtype=torch.long), mask, torch.tensor([True, False]))
    one = torch.ones(2, 1, dtype=torch.long)
    prompts = Prompts(one, one, one[0, :0])
    filled = {"logprobs": -1.0, "entropy": 0.5, "reference": -2.0}
    columns = {name: torch.full((2, 3), value) for name, value in filled.items()} | {"values": torch.zeros(2, 4)}
    judged = [{"score": float(scores[0]), "invalid": 1.0}, {"score": float(scores[1])}]
    scores = made._scores(replies, judged)
    return made._weighed(prompts, replies, columns, scores, made._measured(replies, judged, scores))


def test_scores_become_rewards_and_advantages_as_in_the_equations(tmp_path: Path) -> None:
    """Beta, gamma, lambda and the penalty are the settings'."""
    made = optimiser(tmp_path, changed(no_end=-1.0, gamma=0.5, lam=1.0, beta=0.1))
    found = weighed(made, torch.tensor([1.0, 9.0]))
    mask = found.replies.mask
    # each token costs beta * 1 nat, and the score is paid at the last one; later rewards count half
    assert found.returns[0].tolist() == pytest.approx([-0.1 + 0.5 * 0.9, 0.9, 0, 0])
    assert found.returns[1].tolist() == pytest.approx([-0.1 + 0.5 * (-0.1 + 0.5 * -1.1), -0.1 + 0.5 * -1.1, -1.1, 0])
    chosen = found.advantages[mask]
    assert chosen.mean().item() == pytest.approx(0, abs=1e-6)
    assert chosen.std(unbiased=False).item() == pytest.approx(1, abs=1e-3)
    told = {"reward": 0.0, "kl": 2.5, "length": 2.5, "ended": 0.5, "empty": 0.5, "invalid": 1.0, "entropy": 0.5}
    assert {name: found.metrics[name] for name in told} == pytest.approx(told)


def test_the_clip_and_the_adapted_coefficient_are_those_of_the_settings(tmp_path: Path) -> None:
    optimiser(tmp_path / "tight", changed(iterations=3, episodes=32, clip=1e-6, beta=0.001, target=0.2)).train()
    optimiser(tmp_path / "wide", changed(iterations=1, episodes=32, clip=1e6)).train()
    rows = curve(tmp_path / "tight")
    assert rows[0]["clipped"] > 0.2
    assert curve(tmp_path / "wide")[0]["clipped"] == 0
    for row, following in pairwise(rows):
        assert following["beta"] == pytest.approx(ppo.adapted(row["beta"], row["kl"], 0.2))
    assert rows[2]["beta"] != rows[0]["beta"]


def test_a_context_that_is_too_short_is_said_before_anything_is_sampled(tmp_path: Path) -> None:
    made = optimiser(tmp_path, changed(reply_tokens=126))
    with pytest.raises(ConfigurationError, match=r"room for 128 tokens, and a prompt of 3 and a reply of 126 need 129"):
        made.train()
    assert not list((tmp_path / "fit").glob("checkpoint-*"))


if __name__ == "__main__":  # the process that is killed

    def die(number: int, metrics: Metrics) -> None:
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    made_by = {"tiny_llama": tiny_llama, "tiny_t5": tiny_t5}[sys.argv[2]]
    optimiser(Path(sys.argv[1]), changed(iterations=8), make=made_by).train(die)
