"""A Llama of two layers with random weights that reads and writes single letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.word_tokenizer import word_tokenizer

WORDS = [*"abcdefghijklmnopqrstuvwxyz.,!?"]


def tiny_llama(
    path: Path,
    *,
    end: str | None = "<end>",
    seed: int = 7,
    words: Iterable[str] = WORDS,
    context: int = 128,
    kind: str = "Llama",
    **more: object,
) -> Path:
    """Write the model into a folder. end: the end token; without one there is no token for padding either.

    kind: a family that is built like it. more: of its configuration.
    """
    import torch
    import transformers

    tokenizer = word_tokenizer(["<unk>", *words], eos_token=end)
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=0.3,
        **more,
    )
    getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def tiny_t5(path: Path, *, seed: int = 2) -> Path:
    """Write an encoder-decoder of two layers with the same words into a folder."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = word_tokenizer(["<pad>", "<end>", "<unk>", *WORDS], end="<end>", pad_token="<pad>")
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=1,
        pad_token_id=0,
        initializer_factor=1.0,
    )
    T5ForConditionalGeneration(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def gguf_writer(
    path: Path, architecture: str, tokens: Sequence[str], *, width: int, inner: int, end: int, merge: str, eps: float
) -> Any:
    """A GGUF file of two layers like `tiny_llama`'s, with its settings and no tensors yet. end: also begins."""
    from gguf import GGUFWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(str(path), architecture)
    writer.add_block_count(2)
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_rope_dimension_count(width // 4)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges([merge])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    return writer


def write_gguf(writer: Any) -> None:
    """Write what was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_gguf(path: Path, *, seed: int = 7, width: int = 64) -> Path:
    """Write a Llama like `tiny_llama`'s as a GGUF file with 8-bit weights, whose tokens are single characters."""
    import numpy as np
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    inner, tokens = 96, ["<unk>", "<end>", *WORDS, "Ġ", "Ġa"]
    draw = np.random.default_rng(seed)
    shapes = {"token_embd": (len(tokens), width), "output": (len(tokens), width)}
    for block in range(2):
        shapes |= {f"blk.{block}.attn_{name}": (width, width) for name in ("q", "output")}
        shapes |= {f"blk.{block}.attn_{name}": (width // 2, width) for name in ("k", "v")}
        shapes |= {f"blk.{block}.ffn_{name}": (inner, width) for name in ("gate", "up")}
        shapes[f"blk.{block}.ffn_down"] = (width, inner)
    norms = ["output_norm", *(f"blk.{block}.{name}_norm" for block in range(2) for name in ("attn", "ffn"))]
    writer = gguf_writer(path, "llama", tokens, width=width, inner=inner, end=1, merge="Ġ a", eps=1e-6)
    for name, shape in shapes.items():
        values = quantize(draw.normal(0, 0.3, shape).astype(np.float32), GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"{name}.weight", values, raw_dtype=GGMLQuantizationType.Q8_0)
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(width, dtype=np.float32))
    write_gguf(writer)
    return path
