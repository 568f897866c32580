"""Models of two layers with random weights that read and write single letters: decoders and encoder-decoders."""

from pathlib import Path

from tests.word_tokenizer import word_tokenizer

WORDS = [*"abcdefghijklmnopqrstuvwxyz.,!?<>|", "im", "start", "end"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|> {{ m.role[0] }} {{ m.content }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> a{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + NO_SYSTEM
)
DEAF = TEMPLATE.replace("in messages", "in messages if m.role != 'system'")  # it leaves them out
DECODERS = {
    "llama": ("Llama", {}, TEMPLATE),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, None),
    "gemma2": ("Gemma2", {"sliding_window": 4, "head_dim": 8, "tie_word_embeddings": False}, ALTERNATING),
}
"""By kind: the family, what it has of its own, and its chat template; one is a base model without."""


def chain(path: Path, text: str) -> Path:
    """Write a Llama whose tokens are bytes and which says this text, each byte once, with an end, after any prompt."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    said = letters.pre_tokenize_str(text)[0][0]
    bare = Tokenizer(models.BPE({token: number for number, token in enumerate(["<go>", "<end>", *said])}, []))
    bare.pre_tokenizer, bare.decoder = letters, decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, bos_token="<go>", eos_token="<end>", pad_token="<end>")
    tokenizer.chat_template = "<go>"
    size = len(tokenizer)
    config = LlamaConfig(
        vocab_size=size, hidden_size=size, intermediate_size=4, num_hidden_layers=1, num_attention_heads=1, head_dim=2,
        max_position_embeddings=64, eos_token_id=1, bos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    weights = LlamaForCausalLM(config)
    with torch.no_grad():
        for values in weights.model.layers.parameters():
            values.zero_()  # what is read passes through
        weights.model.embed_tokens.weight.copy_(torch.eye(size))
        weights.lm_head.weight.zero_()
        for token, following in zip((0, *range(2, size)), (*range(2, size), 1), strict=True):
            weights.lm_head.weight[following, token] = 0.5 + 0.1 * (token % 3)  # more and less sure
    weights.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def build(kind, path):
    """A model of two layers with random weights that reads and writes single letters."""
    import torch
    import transformers
    from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

    special = {"pad_token": "<pad>", "extra_special_tokens": ["<|im_start|>", "<secret>"]}
    if kind in DECODERS:
        family, more, template = DECODERS[kind]
        ends = {"eos_token": "<|im_end|>"} if template else {"begin": "<s>", "end": "</s>"}
        tokenizer = word_tokenizer(["<unk>", "<s>", "</s>", *WORDS], blanks=True, **ends, **special)
        tokenizer.chat_template = template
    else:
        known = ["<pad>", "</s>", "<unk>", *WORDS]
        tokenizer = word_tokenizer(known, end="</s>", blanks=True, **special)  # it ends a text with </s>, as T5's does
    torch.manual_seed(11)
    size = {"vocab_size": len(tokenizer), "d_model": 32, "pad_token_id": 0, "eos_token_id": 1}
    if kind in DECODERS:
        torch.manual_seed(7)
        config = getattr(transformers, f"{family}Config")(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
            initializer_range=0.6, **more,
        )  # fmt: skip
        weights = getattr(transformers, f"{family}ForCausalLM")(config)
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
