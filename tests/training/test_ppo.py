"""The equations of PPO against closed forms and a slow reference in plain Python."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra [train]")

import torch

from reground.training.ppo import equations as ppo


def batch(seed: int, rows: int = 3, steps: int = 5):
    """Rewards, values and a mask with episodes of different lengths, as lists."""
    draw = random.Random(seed)
    lengths = [draw.randint(0, steps) for _ in range(rows)]
    rewards = [[draw.uniform(-1, 1) if t < n else 0.0 for t in range(steps)] for n in lengths]
    values = [[draw.uniform(-1, 1) for _ in range(steps + 1)] for _ in lengths]
    mask = [[t < n for t in range(steps)] for n in lengths]
    return lengths, rewards, values, mask


def slow_advantage(rewards: list[float], values: list[float], length: int, t: int, gamma: float, lam: float) -> float:
    """Equation 3 by its sum."""
    total = 0.0
    for later in range(t, length):
        following = values[later + 1] if later + 1 < length else 0.0
        total += (gamma * lam) ** (later - t) * (rewards[later] + gamma * following - values[later])
    return total


@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_advantages_and_returns_are_those_of_the_sum(seed: int, gamma: float, lam: float) -> None:
    lengths, rewards, values, mask = batch(seed)
    found, returns = ppo.advantages_and_returns(
        torch.tensor(rewards), torch.tensor(values), torch.tensor(mask), gamma=gamma, lam=lam
    )
    for row, length in enumerate(lengths):
        for t in range(5):
            wanted = slow_advantage(rewards[row], values[row], length, t, gamma, lam) if t < length else 0.0
            assert found[row, t].item() == pytest.approx(wanted, abs=1e-5)
            assert returns[row, t].item() == pytest.approx(wanted + values[row][t] if t < length else 0.0, abs=1e-5)
        assert returns[row, -1] == 0


def test_log_probabilities_are_those_of_the_tempered_policy() -> None:
    logits = torch.tensor([[[0.0, math.log(3.0)]]])
    one = ppo.token_logprobs(logits, torch.tensor([[1]]))
    assert one.item() == pytest.approx(math.log(3 / 4))
    hot = ppo.token_logprobs(logits, torch.tensor([[1]]), temperature=2.0)
    assert hot.item() == pytest.approx(math.log(math.sqrt(3) / (1 + math.sqrt(3))))
    assert ppo.entropy(torch.zeros(1, 1, 8)).item() == pytest.approx(math.log(8))
    assert ppo.entropy(logits, temperature=1e-3).item() == pytest.approx(0.0, abs=1e-6)


def test_the_score_is_paid_at_the_last_token_and_the_divergence_at_each() -> None:
    mask = torch.tensor([[True, True, False], [True, True, True], [False, False, False]])
    now, first = torch.tensor([[-1.0, -2.0, -9.0]] * 3), torch.tensor([[-1.5, -1.0, -1.0]] * 3)
    rewards = ppo.token_rewards(torch.tensor([1.0, -1.0, 7.0]), now, first, mask, beta=0.1)
    assert rewards.tolist() == [pytest.approx([-0.05, 1.1, 0.0]), pytest.approx([-0.05, 0.1, -0.2]), [0.0, 0.0, 0.0]]


@given(st.integers(0, 10**6))
def test_whitening(seed: int) -> None:
    torch.manual_seed(seed)
    values, mask = torch.randn(4, 6) * 3 + 2, torch.rand(4, 6) > 0.3
    mask[0, :2] = True
    chosen = ppo.whiten(values, mask)[mask]
    assert chosen.mean().item() == pytest.approx(0, abs=1e-4)
    assert chosen.std(unbiased=False).item() == pytest.approx(1, abs=1e-3)
    assert not ppo.whiten(values, mask)[~mask].any()


def slow_policy_loss(new: float, old: float, advantage: float, clip: float) -> float:
    ratio = math.exp(new - old)
    return -min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.2, 0.5]))
def test_the_policy_loss_is_that_of_the_equation(seed: int, clip: float) -> None:
    torch.manual_seed(seed)
    new, old, advantages = -torch.rand(3, 4), -torch.rand(3, 4), torch.randn(3, 4)
    mask = torch.rand(3, 4) > 0.4
    mask[0, 0] = True
    found = ppo.policy_loss(new, old, advantages, mask, clip=clip)
    places = [(row, t) for row in range(3) for t in range(4) if mask[row, t]]
    wanted = [slow_policy_loss(new[at].item(), old[at].item(), advantages[at].item(), clip) for at in places]
    assert found.loss.item() == pytest.approx(sum(wanted) / len(wanted), abs=1e-5)
    assert found.kl.item() >= 0


def test_the_first_update_moves_along_the_policy_gradient_and_a_clipped_one_not_at_all() -> None:
    old, mask = torch.log(torch.tensor([[0.5, 0.5]])), torch.ones(1, 2, dtype=torch.bool)
    advantages = torch.tensor([[2.0, -1.0]])
    new = old.clone().requires_grad_()
    first = ppo.policy_loss(new, old, advantages, mask)
    first.loss.backward()
    assert new.grad.tolist() == [pytest.approx([-1.0, 0.5])]  # -A/2: the ratio is 1 and its slope is too
    assert first.clipped == 0
    assert first.kl == 0
    far = (old + torch.tensor([[0.5, -0.5]])).requires_grad_()
    late = ppo.policy_loss(far, old, advantages, mask)
    late.loss.backward()
    assert far.grad.tolist() == [[0.0, 0.0]]
    assert late.clipped == 1


def test_the_value_loss_is_clipped_and_counts_one_state_more_than_there_are_actions() -> None:
    mask = torch.tensor([[True, True, False]])
    counted = ppo.value_mask(mask)
    assert counted.tolist() == [[True, True, True, False]]
    old, returns = torch.zeros(1, 4), torch.tensor([[1.0, 1.0, 0.0, 50.0]])
    new = torch.tensor([[1.0, 0.1, 0.0, 0.0]])
    # 1.0 is right but moved past the clip: it still counts as 0.2, (0.2 - 1)^2; 0.1 did not.
    assert ppo.value_loss(new, old, returns, counted).item() == pytest.approx((0.64 + 0.81 + 0.0) / 3)


def test_explained_variance() -> None:
    returns, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.ones(1, 3, dtype=torch.bool)
    assert ppo.explained_variance(returns, returns, mask) == 1
    assert ppo.explained_variance(torch.full((1, 3), 2.0), returns, mask) == pytest.approx(0)
    assert math.isnan(ppo.explained_variance(returns, torch.ones(1, 3), mask))


@pytest.mark.parametrize(
    ("kl", "factor"), [(0.2, 1), (10.0, 1.02), (0.0, 0.98), (0.21, 1 + 0.1 * 0.05)]
)  # 1 + 0.1 * 0.2 at most
def test_the_coefficient_of_the_divergence_follows_its_target(kl: float, factor: float) -> None:
    assert ppo.adapted(0.001, kl, 0.2) == pytest.approx(0.001 * factor)
    assert ppo.adapted(0.5, kl, None) == 0.5


def test_a_score_counts_by_how_far_it_is_above_the_other_replies_to_its_question() -> None:
    scores, groups = torch.tensor([1.0, 9.0, 4.0, 2.0, 9.0, 0.0]), torch.tensor([0, 1, 0, 2, 1, 0])
    #  1 - (4 + 0) / 2, 9 - 9, 4 - (1 + 0) / 2, alone, 9 - 9, 0 - (1 + 4) / 2
    assert ppo.above_the_others(scores, groups).tolist() == [-1.0, 0.0, 3.5, 2.0, 0.0, -2.5]
    assert ppo.above_the_others(scores, torch.arange(6)).tolist() == scores.tolist()


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-1.0, 0.5, 2.0])), min_size=1, max_size=24))
def test_replies_tell_where_another_one_to_the_question_scores_otherwise(replies: list[tuple[int, float]]) -> None:
    groups, scores = (torch.tensor(column) for column in zip(*replies, strict=True))
    scored = [{score for group, score in replies if group == number} for number, _ in replies]
    alone = [sum(group == number for group, _ in replies) == 1 for number, _ in replies]
    wanted = [row for row, _ in enumerate(replies) if alone[row] or len(scored[row]) > 1]
    assert ppo.telling(scores, groups).tolist() == (wanted if len({score for _, score in replies}) > 1 else [])


def test_grpo_divides_by_the_deviation_of_the_group() -> None:
    scores, groups = torch.tensor([1.0, 9.0, 4.0, 9.0, 4.0, 9.0]), torch.tensor([0, 1, 0, 1, 0, 1])
    # the group's mean is 3, its deviation the root of (4 + 1 + 1) / 2
    wanted = [-2 / 3**0.5, 0.0, 1 / 3**0.5, 0.0, 1 / 3**0.5, 0.0]
    assert ppo.above_the_group(scores, groups).tolist() == pytest.approx(wanted, abs=1e-3)
