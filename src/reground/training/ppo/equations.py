"""Proximal policy optimisation of a text model: the equations (Rewrite-Retrieve-Read, section 3.2, equations 2 to 5).

An episode is one reply. The action at step t is the token a_t, the state s_t the prompt and the tokens before it. All
functions are pure. Tensors have one row an episode and one column a step, [B, T]; `mask` is true where a token was
written. Values have a column more, [B, T + 1]: V(s_0) to V(s_T), the state behind the last token included.

Where the paper is silent, the choices are those of the common implementations of RLHF; each docstring names its source.
Those of Huang et al. 2024 are in "The N+ Implementation Details of RLHF with PPO: A Case Study on TL;DR Summarization".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def token_logprobs(logits: Tensor, tokens: Tensor, *, temperature: float = 1.0) -> Tensor:
    """log p(a_t | s_t) of the tokens, [B, T], from the logits at their states, [B, T, vocabulary].

    The logits are divided by the sampling temperature here as in sampling, so that the probabilities are those of the
    policy that acted (Huang et al. 2024).
    """
    scaled = logits.float() / temperature
    action_logits = scaled.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return action_logits - scaled.logsumexp(-1)


def entropy(logits: Tensor, *, temperature: float = 1.0) -> Tensor:
    """The entropy of the policy at each state, [B, T], in nats."""
    logp = torch.log_softmax(logits.float() / temperature, dim=-1)
    return -(logp.exp() * logp).sum(-1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean where the mask is true; 0 where it is true nowhere."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def reply_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over replies of each one's mean over its tokens: a long reply counts as much as a short one."""
    return ((values * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """Values shifted to mean zero and scaled to unit variance over the mask."""
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask)
    return (values - mean) * torch.rsqrt(variance + 1e-8) * mask


def above_the_others(scores: Tensor, groups: Tensor) -> Tensor:
    """Each score less the mean of the other scores of its group, [B]; a score that is alone stays as it is.

    groups: the number of each reply's question, [B]. The mean of the others does not depend on the reply, so the
    gradient keeps its mean (Kool et al. 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!").
    """
    count, total = _of_group(torch.ones_like(scores), groups), _of_group(scores, groups)
    return torch.where(count > 1, scores - (total - scores) / (count - 1).clamp(min=1), scores)


def above_the_group(scores: Tensor, groups: Tensor) -> Tensor:
    """GRPO's advantage, [B]: each score less its group's mean, over its group's deviation (Shao et al. 2024, section
    4.1.2). Groups have two replies or more. The deviation is that of a sample; the small number beside it is TRL's.
    """
    count = _of_group(torch.ones_like(scores), groups)
    off = scores - _of_group(scores, groups) / count
    return off / ((_of_group(off**2, groups) / (count - 1)).sqrt() + 1e-4)


def _of_group(values: Tensor, groups: Tensor) -> Tensor:
    """The sum of the values of each row's group, [B]."""
    return values.new_zeros(int(groups.max()) + 1).index_add(0, groups, values)[groups]


def telling(scores: Tensor, groups: Tensor) -> Tensor:
    """The rows of the replies that say which reply is better, in order: none where all score the same.

    Of a group with several replies that all score the same, none does: above the others they are zero, and whitening
    would blow up what is left (dynamic sampling, Yu et al. 2025, "DAPO", section 3.2, without the refill).
    """
    count = torch.bincount(groups)
    most = scores.new_full(count.shape, -torch.inf).scatter_reduce(0, groups, scores, "amax")
    least = scores.new_full(count.shape, torch.inf).scatter_reduce(0, groups, scores, "amin")
    mask = ((count == 1) | (most > least))[groups]
    return (mask & (scores.max() > scores.min())).nonzero()[:, 0]


def token_rewards(scores: Tensor, logprobs: Tensor, reference: Tensor, mask: Tensor, *, beta: float) -> Tensor:
    """Equation 4, [B, T]: at each token -beta (log pi(a|s) - log pi_0(a|s)), and at the last one also the score.

    scores: R_lm, one an episode, [B]. An episode without a token has no reward.
    """
    rewards = -beta * (logprobs - reference) * mask
    last = mask.sum(-1) - 1
    rows = torch.arange(len(scores), device=scores.device)[last >= 0]
    rewards[rows, last[last >= 0]] += scores[last >= 0].to(rewards.dtype)
    return rewards


def advantages_and_returns(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> tuple[Tensor, Tensor]:
    """Equation 3: delta_t = r_t + gamma V(s_{t+1}) - V(s_t), and A_t = the sum of (gamma lambda)^l delta_{t+l}.

    The episode ends with its last token, so the value of the state behind it is zero. Gives the advantages, [B, T],
    and the returns A_t + V(s_t) that the value model is fitted to, [B, T + 1]; the return of the end is zero.
    """
    steps = rewards.shape[1]
    alive = torch.cat([mask, torch.zeros_like(mask[:, :1])], dim=1)
    live_values = values * alive  # nothing is gained behind the last token
    running = torch.zeros_like(rewards[:, 0])
    reversed_advantages = []
    for step in reversed(range(steps)):
        delta = rewards[:, step] + gamma * live_values[:, step + 1] - live_values[:, step]
        running = (delta + gamma * lam * running) * mask[:, step]
        reversed_advantages.append(running)
    advantages = torch.stack(reversed_advantages[::-1], dim=1)
    returns = torch.cat([advantages + live_values[:, :-1], torch.zeros_like(live_values[:, :1])], dim=1) * alive
    return advantages, returns


def value_mask(mask: Tensor) -> Tensor:
    """Where a value counts, [B, T + 1]: at every state that an action was taken in, and at the end behind the last."""
    return torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)


@dataclass(frozen=True)
class PolicyLoss:
    """The loss, and what it says of the update: clipped is the share of the tokens whose ratio is past the clip."""

    loss: Tensor
    clipped: Tensor
    kl: Tensor


def policy_loss(
    new: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, *, clip: float = 0.2, by_reply: bool = False
) -> PolicyLoss:
    """Equations 2 and 5: the mean over tokens of -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A), r = pi / pi_old.

    by_reply: whether it is the mean over replies of these, as in GRPO. kl: an estimate of KL(pi_old || pi).
    """
    log_ratio = (new - old) * mask
    ratio = log_ratio.exp()
    plain, clipped = -advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)
    return PolicyLoss(
        loss=(reply_mean if by_reply else masked_mean)(torch.max(plain, clipped), mask),
        clipped=masked_mean((clipped > plain).float(), mask),
        kl=masked_mean(divergence(old, new, mask), mask),
    )


def divergence(logprobs: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """(r - 1) - log r, r = other / policy: KL(policy || other) at each token, never negative (Schulman 2020; GRPO)."""
    log_ratio = (other - logprobs) * mask
    return log_ratio.exp() - 1 - log_ratio


def value_loss(new: Tensor, old: Tensor, returns: Tensor, mask: Tensor, *, clip: float = 0.2) -> Tensor:
    """Equation 5: the mean of (V(s_t) - R_t)^2, where a value that moved past the clip gains nothing by it.

    new, old, returns: [B, T + 1]; mask: `value_mask`. The clip is as in OpenAI's implementation.
    """
    near = old + (new - old).clamp(-clip, clip)
    return masked_mean(torch.max((new - returns) ** 2, (near - returns) ** 2), mask)


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float:
    """1 - Var(R - V) / Var(R) over the mask: 1 for a perfect value model, 0 for one that knows only the mean."""
    true, residual = returns[mask.bool()], (returns - values)[mask.bool()]
    spread = true.var(unbiased=False)
    return float("nan") if len(true) < 2 or spread == 0 else float(1 - residual.var(unbiased=False) / spread)


def adapted(beta: float, kl: float, target: float | None, *, rate: float = 0.1, bound: float = 0.2) -> float:
    """The coefficient of the KL penalty after an iteration whose replies had this mean divergence, in nats a reply.

    beta <- beta (1 + rate clip(KL / target - 1, -bound, bound)), so that the divergence stays near the target (Ziegler
    et al. 2019, section 2.2). The rate and the bound are those of the paper's official configuration. But its program,
    RL4LMs, gives the controller the mean divergence of a token, and here the target is that of a whole reply. target
    None keeps beta as it is.
    """
    return beta if target is None else beta * (1 + rate * min(bound, max(-bound, kl / target - 1)))
