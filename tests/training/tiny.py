"""A Llama of two layers with random weights that reads and writes single letters."""

from __future__ import annotations

from pathlib import Path

WORDS = [*"abcdefghijklmnopqrstuvwxyz.,!?"]


def tiny_llama(path: Path, *, end: str | None = "<end>", seed: int = 7) -> Path:
    """Write the model into a folder. end: the end token; without one there is no token for padding either."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<unk>", *WORDS])}
    bare = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="<unk>", eos_token=end)
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
