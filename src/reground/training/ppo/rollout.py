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


def joined_replies(parts: Sequence[Replies], pad: int) -> Replies:
    """The batches as one, padded to the longest reply."""
    longest = max(each.tokens.shape[1] for each in parts)
    return Replies(
        _joined([each.tokens for each in parts], pad, longest),
        _joined([each.mask for each in parts], False, longest),
        torch.cat([each.ended for each in parts]),
    )


Part = tuple[Scored, torch.Tensor]
"""What the policy says of replies, and the reference's log-probabilities."""


def joined_columns(parts: Sequence[Part], width: int) -> dict[str, torch.Tensor]:
    """The batches as one, padded to a width of this many tokens."""
    return {
        "logprobs": _joined([scored.logprobs for scored, _ in parts], 0.0, width),
        "entropy": _joined([scored.entropy for scored, _ in parts if scored.entropy is not None], 0.0, width),
        "values": _joined([scored.values for scored, _ in parts], 0.0, width + 1),
        "reference": _joined([reference for _, reference in parts], 0.0, width),
    }


def joined_below(parts: Sequence[Part], prompt_width: int, reply_width: int) -> Below | None:
    """What is below the trained layers in all batches, padded to these widths of prompt and reply."""
    found = [(scored.below, scored.logprobs.shape[1]) for scored, _ in parts]
    rows = [
        torch.nn.functional.pad(below.rows, (0, 0, prompt_width + length - below.rows.shape[1], reply_width - length))
        for below, length in found
        if below is not None
    ]
    first = found[0][0]
    return None if first is None else Below(first.prefix, torch.cat(rows))


def _joined(columns: Sequence[torch.Tensor], fill: float, width: int) -> torch.Tensor:
    return torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1]), value=fill) for each in columns])
