"""A Llama of two layers with random weights that reads and writes single letters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.word_tokenizer import word_tokenizer

WORDS = [*"abcdefghijklmnopqrstuvwxyz.,!?"]


def tiny_llama(path: Path, *, end: str | None = "<end>", seed: int = 7, words: Iterable[str] = WORDS) -> Path:
    """Write the model into a folder. end: the end token; without one there is no token for padding either."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = word_tokenizer(["<unk>", *words], eos_token=end)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=0.3,
    )
    LlamaForCausalLM(config).save_pretrained(path)
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
