"""The trained layers of a decoder apart from the frozen ones below them.

Where only the last layers are trained, what enters them never changes: it is computed once for an iteration's episodes,
and policy, value model, reference and every epoch begin there.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

_NEAR = 1e-3
"""How far states and logits of the two ways may be apart, relative to their size; sums in another order move them
less."""


def frozen_layers(model: Any) -> int:
    """How many of a decoder's first layers, with its embeddings, are not trained; 0 where it cannot be cut there.

    It can where the trained layers alone, given the states below them, and the output layer compute what the whole
    model computes. That is tried, because models differ in what they do around their layers, and some scale or cap
    their logits.
    """
    layers = _layers(model)
    if layers is None or any(each.requires_grad for each in model.get_input_embeddings().parameters()):
        return 0
    trained = (place for place, layer in enumerate(layers) if any(each.requires_grad for each in layer.parameters()))
    frozen = next(trained, 0)
    return frozen if frozen and _agrees(model, frozen) else 0


def upper(model: Any, frozen: int) -> Any:
    """The decoder of a model without its first layers: it reads states as `inputs_embeds`. The weights are shared."""
    whole = model.get_decoder()
    config = copy.deepcopy(whole.config)
    config.num_hidden_layers -= frozen
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[frozen:]
    decoder = _sharing(whole)
    decoder.config = config
    decoder.layers = nn.ModuleList(_numbered(layer, place) for place, layer in enumerate(whole.layers[frozen:]))
    return decoder


def _layers(model: Any) -> nn.ModuleList | None:
    """The layers of a decoder that is built as most are, and None of another model."""
    layers = getattr(model.get_decoder(), "layers", None)
    if not isinstance(layers, nn.ModuleList) or not all(hasattr(each, "self_attn") for each in layers):
        return None
    return layers if len(layers) == model.config.num_hidden_layers else None


def _numbered(layer: nn.Module, place: int) -> nn.Module:
    """The layer at another place of the cache."""
    moved = _sharing(layer)
    moved.self_attn = _sharing(layer.self_attn)
    moved.self_attn.layer_idx = place
    return moved


def _sharing(module: Any) -> Any:
    """A module with the same weights, whose parts can be exchanged without changing the first one."""
    other = copy.copy(module)
    other._modules = dict(module._modules)  # noqa: SLF001
    return other


def _agrees(model: Any, frozen: int) -> bool:
    device = next(model.parameters()).device
    ids = (torch.arange(16, device=device) % model.get_input_embeddings().num_embeddings)[None]
    with torch.no_grad():
        whole = model(input_ids=ids, output_hidden_states=True)
        try:
            states = upper(model, frozen)(inputs_embeds=whole.hidden_states[frozen]).last_hidden_state
            logits = model.get_output_embeddings()(states)
        except (TypeError, AttributeError, IndexError):  # a model that is built otherwise
            return False
    return _near(states, whole.hidden_states[-1]) and _near(logits, whole.logits)


def _near(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return bool((found - wanted).abs().max() <= _NEAR * wanted.abs().max())
