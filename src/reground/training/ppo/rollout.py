"""An iteration's episodes, and how they are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from reground.training.ppo.policy import Scored
from reground.training.ppo.tokens import Below, Prompts, Replies

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
    below: Below | None
    metrics: Metrics

    def at(self, rows: torch.Tensor) -> tuple[Prompts, Replies, Below | None]:
        """The episodes of some rows, as narrow as they can be."""
        prompts, replies = self.prompts.at(rows), self.replies.at(rows)
        if self.below is None:
            return prompts, replies, None
        return prompts, replies, self.below.at(rows, prompts, replies, reply_width=self.replies.tokens.shape[1])


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


def joined_below(parts: Sequence[Part], prompt_width: int) -> Below | None:
    """What is below the trained layers in all batches, padded to the longest prompt and reply."""
    longest = max(replies.tokens.shape[1] for replies, _, _ in parts)
    found = [(scored.below, replies.tokens.shape[1]) for replies, scored, _ in parts]
    rows = [
        torch.nn.functional.pad(below.rows, (0, 0, prompt_width + length - below.rows.shape[1], longest - length))
        for below, length in found
        if below is not None
    ]
    first = found[0][0]
    return None if first is None else Below(first.prefix, torch.cat(rows))
