"""An iteration's episodes, and how they are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from reground.training.ppo.policy import Prompts, Replies, Scored

Metrics = dict[str, float]


@dataclass(frozen=True)
class Rollout:
    """An iteration's episodes, as tensors of one row each, and what was measured before the update."""

    prompts: Prompts
    replies: Replies
    logprobs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    metrics: Metrics


def hash_of(*parts: object) -> int:
    """A seed that depends on all parts and on nothing else."""
    return random.Random(repr(parts)).getrandbits(63)


def order_of(total: int, seed: int, epoch: int) -> list[int]:
    """The order of the questions in a pass over all of them."""
    order = list(range(total))
    random.Random(repr((seed, epoch))).shuffle(order)
    return order


def batches(lengths: torch.Tensor, size: int, draw: torch.Generator) -> list[torch.Tensor]:
    """Every row once, in batches in random order.

    The rows are shuffled and cut into pieces of four batches; within a piece, rows of like length come together, so
    that little padding is computed.
    """
    pieces = torch.randperm(len(lengths), generator=draw).split(4 * size)
    found = [rows for piece in pieces for rows in piece[lengths[piece].argsort(stable=True)].split(size)]
    return [found[place] for place in torch.randperm(len(found), generator=draw)]


def slices(total: int, size: int) -> Iterator[slice]:
    """Consecutive pieces of this size, the last one shorter."""
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


Part = tuple[Replies, Scored, torch.Tensor]
"""Replies, what the policy says of them, and the reference's log-probabilities."""


def joined_parts(parts: Sequence[Part], pad: int) -> tuple[Replies, dict[str, torch.Tensor]]:
    """The batches as one, padded to the longest reply."""
    longest = max(replies.tokens.shape[1] for replies, _, _ in parts)

    def joined(columns: Sequence[torch.Tensor], fill: float, width: int) -> torch.Tensor:
        return torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1]), value=fill) for each in columns])

    replies = Replies(
        joined([each.tokens for each, _, _ in parts], pad, longest),
        joined([each.mask for each, _, _ in parts], False, longest),
        torch.cat([each.ended for each, _, _ in parts]),
    )
    return replies, {
        "logprobs": joined([scored.logprobs for _, scored, _ in parts], 0.0, longest),
        "entropy": joined([scored.entropy for _, scored, _ in parts if scored.entropy is not None], 0.0, longest),
        "values": joined([scored.values for _, scored, _ in parts], 0.0, longest + 1),
        "reference": joined([reference for _, _, reference in parts], 0.0, longest),
    }
