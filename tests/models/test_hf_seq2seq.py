"""Encoder-decoders through transformers: tiny random ones, T5 with relative positions and BART with absolute ones."""

import asyncio
import json

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("transformers", reason="needs the extra [train]")

import torch

from reground.core.errors import ContextLengthExceeded, ModelError
from reground.models.hf import create
from reground.models.options import ModelOptions
from tests.models.conversing import answered_as_if_alone, sampling, says
from tests.word_tokenizer import word_tokenizer

WORDS = [*"abcdefghijklmnopqrstuvwxyz.,!?;:*", "<secret>"]
OPTIONS = ModelOptions(threads=1)


def words():
    """A tokenizer of single letters that ends a text with </s>, as T5's does."""
    known = ["<pad>", "</s>", "<unk>", *WORDS]
    return word_tokenizer(known, end="</s>", blanks=True, pad_token="<pad>", extra_special_tokens=["<secret>"])


def build(kind, path):
    from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

    tokenizer = words()
    torch.manual_seed(11)
    size = {"vocab_size": len(tokenizer), "d_model": 32, "pad_token_id": 0, "eos_token_id": 1}
    if kind == "t5":
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


@pytest.fixture(scope="module", params=["t5", "bart"])
def folder(request, tmp_path_factory):
    return build(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def model(folder):
    return create(str(folder), OPTIONS)


def by_hand(folder, text, count):
    """Greedy tokens and their log-probabilities, one forward pass a token and no cache."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, weights = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    read = torch.tensor([tokenizer(text)["input_ids"]])
    written, scores = [weights.config.decoder_start_token_id], []
    with torch.inference_mode():
        for _ in range(count):
            logits = weights(input_ids=read, decoder_input_ids=torch.tensor([written])).logits[0, -1]
            token = int(logits.argmax())
            scores.append(float(torch.log_softmax(logits, dim=-1)[token]))
            written.append(token)
            if token == tokenizer.eos_token_id:
                break
    return tokenizer, written[1:], scores


@pytest.mark.parametrize("text", ["a b c", "x", "q w e r t ; a b c d e f g h"])
async def test_greedy_text_and_log_probabilities_are_those_of_the_model(model, folder, text):
    tokenizer, written, scores = by_hand(folder, text, 8)
    (reply,) = await model.generate(says(text), sampling(logprobs=True))
    spelt = [(token, s) for token, s in zip(written, scores, strict=True) if token not in tokenizer.all_special_ids]
    assert reply.text == tokenizer.decode([token for token, _ in spelt])
    assert reply.usage.completion == len(written)
    assert "".join(token.token for token in reply.token_logprobs) == reply.text
    assert [token.logprob for token in reply.token_logprobs] == pytest.approx([s for _, s in spelt], abs=1e-4)


async def test_messages_are_joined_as_plain_text(model):
    (one,) = await model.generate(says("a b \n\n c"), sampling())
    (two,) = await model.generate(says("a b ", " c"), sampling())
    assert (one.text, one.usage) == (two.text, two.usage)


async def test_calls_at_once_are_answered_as_if_alone(model):
    await answered_as_if_alone(model, [says(" ".join(WORDS[:length])) for length in (2, 3, 5, 9, 14, 20)])


async def test_a_reply_may_end_at_once_whatever_length_the_model_prefers(tmp_path):
    from transformers import AutoModelForSeq2SeqLM

    weights = AutoModelForSeq2SeqLM.from_pretrained(build("bart", tmp_path))
    weights.final_logits_bias[0, 1] = 1000.0
    weights.save_pretrained(tmp_path)
    (reply,) = await create(str(tmp_path), OPTIONS).generate(says("a b"), sampling(logprobs=True))
    assert (reply.text, reply.finish_reason, reply.usage.completion, reply.token_logprobs) == ("", "stop", 1, ())


async def test_special_tokens_in_a_message_reach_the_model_as_text(model):
    async def tokens(text):
        return (await model.generate(says(text), sampling(max_tokens=1)))[0].usage.prompt

    assert await tokens("a <secret> b") == await tokens("a b") + 2
    assert await tokens("a </s> b") == await tokens("a b") + 2


async def test_prompt_and_reply_each_have_the_whole_length(model, folder):
    limit = json.loads((folder / "config.json").read_text()).get("max_position_embeddings")
    long = says("a " * 100)
    if limit is None:  # relative positions have no end
        assert (await model.generate(long, sampling(max_tokens=60)))[0].usage.prompt == 101
        return
    good, bad = await asyncio.gather(
        model.generate(says("a " * (limit - 1)), sampling(max_tokens=200)),
        model.generate(long, sampling(max_tokens=200)),
        return_exceptions=True,
    )
    assert isinstance(bad, ContextLengthExceeded)
    assert f"has room for {limit}" in str(bad)
    assert good[0].usage.prompt == limit
    assert good[0].usage.completion <= limit


def adapted(folder, target):
    """A LoRA adapter on the model, strong enough to be seen, in a folder without a tokenizer."""
    peft = pytest.importorskip("peft", reason="needs the extra [train]")
    from transformers import AutoModelForSeq2SeqLM

    torch.manual_seed(3)
    base = AutoModelForSeq2SeqLM.from_pretrained(folder)
    modules = ["q", "v"] if base.config.model_type == "t5" else ["q_proj", "v_proj"]
    config = peft.LoraConfig(r=4, task_type="SEQ_2_SEQ_LM", target_modules=modules, init_lora_weights=False)
    tuned = peft.get_peft_model(base, config)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight.mul_(20)
    tuned.save_pretrained(target)


async def test_an_adapter_given_or_as_a_folder_of_its_own_changes_what_is_said(folder, model, tmp_path):
    adapted(folder, tmp_path / "adapter")
    (plain,) = await model.generate(says("a b c"), sampling(logprobs=True))
    given = create(str(folder), ModelOptions(threads=1, adapter=tmp_path / "adapter"))
    (changed,) = await given.generate(says("a b c"), sampling(logprobs=True))
    assert changed.token_logprobs != plain.token_logprobs
    alone = create(str(tmp_path / "adapter"), OPTIONS)
    assert (await alone.generate(says("a b c"), sampling(logprobs=True)))[0] == changed


async def test_an_adapter_without_a_base_is_a_model_error(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="names no base model"):
        await create(str(tmp_path), OPTIONS).generate(says("a"), sampling())
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ModelError, match="could not load"):
        await create(str(tmp_path), OPTIONS).generate(says("a"), sampling())
