"""A sentence-transformers model of one small layer with random weights, whose words are those of the tests."""

from __future__ import annotations

from pathlib import Path

from tests.word_tokenizer import word_tokenizer

COLOURS = ["red", "green", "blue", "black", "white", "pink", "brown", "grey"]
ANIMALS = ["cat", "dog", "owl", "fox", "hen", "bee", "ant", "cow"]
WORDS = [*COLOURS, *ANIMALS, "where", "does", "the", "live", "lives", "in", "a", "house", "of", "?", "."]


def tiny_embedder(path: Path, *, seed: int = 7) -> Path:
    """Write the model into a folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import normalizers
    from transformers import BertConfig, BertModel

    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = word_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS], unknown="[UNK]", **special)
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.model_max_length = 32
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    inner = path.with_name(f"{path.name}-inner")
    BertModel(config).save_pretrained(inner)
    tokenizer.save_pretrained(inner)
    transformer = Transformer(str(inner), max_seq_length=32)
    SentenceTransformer(modules=[transformer, Pooling(32)]).save_pretrained(str(path), create_model_card=False)
    return path
