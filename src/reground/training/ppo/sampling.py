"""Sample replies of a decoder, computing no more than is needed: the common prefix once, ended rows no longer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from reground.training.ppo.tokens import Prompts

_HELD = 7 / 8
"""The share of the computed rows that must still go on; below it, the ended ones are taken out of the cache."""


def cache_name(model: Any) -> str:
    """What a model calls its keys and values, as an argument and in its output.

    Since transformers 5.24 it is `cache`, before that `past_key_values`.
    """
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model  # peft's own takes any argument
    return "cache" if "cache" in inspect.signature(plain.forward).parameters else "past_key_values"


def draw(
    model: Any,
    prompts: Prompts,
    start: dict[str, Any],
    *,
    most: int,
    temperature: float,
    ends: Sequence[int],
    pad: int,
    keep: dict[str, int],
) -> torch.Tensor:
    """One reply a prompt, [B, most], padded behind its end token; temperature 0 is greedy.

    start: the prefix's keys and values, as the model takes them. keep: how to have it compute the last logits alone.
    """
    device = prompts.ids.device
    tokens = torch.full((len(prompts.ids), most), pad, device=device)
    rows = torch.arange(len(tokens), device=device)
    going = torch.ones_like(rows, dtype=torch.bool)
    stops = torch.tensor(ends, device=device)
    mask = torch.cat([prompts.mask.new_ones(len(tokens), len(prompts.prefix)), prompts.mask], dim=1)
    places = (mask.cumsum(-1) - 1).clamp(min=0)[:, len(prompts.prefix) :]
    named = cache_name(model)
    read, cache = prompts.ids, start.get(named)
    for place in range(most):
        cached = {named: cache, "use_cache": True}
        out = model(input_ids=read, attention_mask=mask, position_ids=places, **cached, **keep)
        cache = out[named]
        written = _chosen(out.logits[:, -1].float(), temperature)
        tokens[rows[going], place] = written[going]
        going &= ~torch.isin(written, stops)
        if not going.any():
            break
        if going.sum() < _HELD * len(rows):
            kept = going.nonzero()[:, 0]
            cache.batch_select_indices(kept)
            rows, mask, places, written, going = (each[kept] for each in (rows, mask, places, written, going))
        read, places = written[:, None], places[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    return tokens


def _chosen(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
