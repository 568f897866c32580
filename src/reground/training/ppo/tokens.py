"""Prompts and replies as token ids, and the states below the layers that are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Prompts:
    """Tokenised prompts, [B, P]: padded on the left for a decoder, on the right for an encoder.

    prefix: the tokens that all prompts begin with, such as those of a chat template, [L]; they are not in `ids` and are
    computed once for a batch.
    """

    ids: Tensor
    mask: Tensor
    prefix: Tensor

    @property
    def width(self) -> int:
        """The tokens of the longest prompt."""
        return len(self.prefix) + int(self.ids.shape[1])

    def at(self, rows: Tensor | slice) -> Prompts:
        """Some rows, without the columns that are padding in all of them."""
        used = self.mask[rows].any(0)
        return Prompts(self.ids[rows][:, used], self.mask[rows][:, used], self.prefix)

    def whole(self) -> Prompts:
        """The same prompts with the prefix in every row."""
        shape = (len(self.ids), len(self.prefix))
        ids = torch.cat([self.prefix.expand(shape), self.ids], dim=1)
        return Prompts(ids, torch.cat([self.mask.new_ones(shape), self.mask], dim=1), self.prefix[:0])


@dataclass(frozen=True)
class Replies:
    """Sampled tokens and where they count, [B, T]. The end token counts; ended is false where there is none, [B]."""

    tokens: Tensor
    mask: Tensor
    ended: Tensor

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each reply, [B]."""
        return self.mask.sum(-1)

    def at(self, rows: Tensor | slice) -> Replies:
        """Some rows, as wide as the longest of them."""
        width = int(self.lengths[rows].max())
        return Replies(self.tokens[rows, :width], self.mask[rows, :width], self.ended[rows])


@dataclass(frozen=True)
class Below:
    """What enters the first trained layer: the states of the prefix, [L, width], and of prompts and replies,
    [B, P + T, width]. No step of training changes them.
    """

    prefix: Tensor
    rows: Tensor

    def at(self, rows: Tensor | slice, prompts: Prompts, replies: Replies, *, reply_width: int) -> Below:
        """Those of some rows, as wide as what `at` leaves of their prompts and replies.

        reply_width: the columns that replies have here.
        """
        border = self.rows.shape[1] - reply_width
        begin, end = border - prompts.ids.shape[1], border + replies.tokens.shape[1]
        return Below(self.prefix, self.rows[rows, begin:end])
