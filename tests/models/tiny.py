"""Models of two layers with random weights that read and write single letters: a decoder and two encoder-decoders."""

from tests.word_tokenizer import word_tokenizer

WORDS = [*"abcdefghijklmnopqrstuvwxyz.,!?<>|", "im", "start", "end"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|> {{ m.role[0] }} {{ m.content }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> a{% endif %}"
)


def build(kind, path):
    """A model of two layers with random weights that reads and writes single letters."""
    import torch
    from transformers import (
        BartConfig,
        BartForConditionalGeneration,
        LlamaConfig,
        LlamaForCausalLM,
        T5Config,
        T5ForConditionalGeneration,
    )

    special = {"pad_token": "<pad>", "extra_special_tokens": ["<|im_start|>", "<secret>"]}
    if kind == "llama":
        tokenizer = word_tokenizer(["<unk>", *WORDS], blanks=True, eos_token="<|im_end|>", **special)
        tokenizer.chat_template = TEMPLATE
    else:
        known = ["<pad>", "</s>", "<unk>", *WORDS]
        tokenizer = word_tokenizer(known, end="</s>", blanks=True, **special)  # it ends a text with </s>, as T5's does
    torch.manual_seed(11)
    size = {"vocab_size": len(tokenizer), "d_model": 32, "pad_token_id": 0, "eos_token_id": 1}
    if kind == "llama":
        torch.manual_seed(7)
        config = LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
            initializer_range=0.6,
        )  # fmt: skip
        weights = LlamaForCausalLM(config)
    elif kind == "t5":
        config = T5Config(
            **size, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, initializer_factor=3.0,
            tie_word_embeddings=False,
        )  # fmt: skip
        weights = T5ForConditionalGeneration(config)
    else:
        config = BartConfig(
            **size, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
            encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=40, bos_token_id=0,
            decoder_start_token_id=1, init_std=0.6, forced_eos_token_id=None, tie_word_embeddings=False,
        )  # fmt: skip
        weights = BartForConditionalGeneration(config)
        weights.generation_config.num_beams = 4
        weights.generation_config.no_repeat_ngram_size = 1
        weights.generation_config.min_length = 7
    weights.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
