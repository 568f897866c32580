"""A sentence-transformers model of one small layer with random weights, whose words are those of the tests."""

from __future__ import annotations

from pathlib import Path

COLOURS = ["red", "green", "blue", "black", "white", "pink", "brown", "grey"]
ANIMALS = ["cat", "dog", "owl", "fox", "hen", "bee", "ant", "cow"]
WORDS = [*COLOURS, *ANIMALS, "where", "does", "the", "live", "lives", "in", "a", "house", "of", "?", "."]


def tiny_embedder(path: Path, *, seed: int = 7) -> Path:
    """Write the model into a folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    bare = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    bare.normalizer = normalizers.Lowercase()
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bare, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
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
