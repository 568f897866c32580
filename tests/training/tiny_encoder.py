"""Encoders with random weights, and critics of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reground.core.files import files_fingerprint
from reground.critics import KINDS, Kind
from reground.critics.scorers import FILE, Manifest


def small_encoder(path: Path, *, padding: bool = True) -> Path:
    """A BERT of two layers with random weights and the words of MiniLM."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from reground.training.critics.fit import minilm

    torch.manual_seed(3)
    tokenizer = AutoTokenizer.from_pretrained(minilm())
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape)).save_pretrained(path)
    if not padding:
        tokenizer.pad_token = None
    tokenizer.save_pretrained(path)
    return path


def random_critic(
    out: Path,
    base: Path,
    *,
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
    passage_tokens: int = 20,
    max_length: int = 48,
    mix: dict[Kind, dict[str, float]] | None = None,
) -> Path:
    """A training folder with a critic that nobody trained; one model for all kinds."""
    import torch
    from sentence_transformers import CrossEncoder

    torch.manual_seed(seed)
    folder = out / "critic"
    CrossEncoder(str(base), num_labels=1, max_length=max_length).save_pretrained(str(folder / "shared"))
    manifest = Manifest(
        engine="encoder",
        base="random",
        kinds=dict.fromkeys(kinds, "shared"),
        max_length=max_length,
        passage_tokens=passage_tokens,
        weights={"shared": str(files_fingerprint(folder / "shared"))},
        mix=mix,
    )
    (folder / FILE).write_text(manifest.model_dump_json())
    return out
