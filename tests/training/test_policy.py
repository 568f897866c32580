"""A language model as a policy: decoder-only and encoder-decoder, whole and with an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("peft", reason="needs the extra [train]")

import torch
from tokenizers.processors import TemplateProcessing

from reground.training.ppo.policy import Policy, Prompts, Replies
from reground.training.rewriter.train import rewriter_prompt
from reground.training.weights import adapted, load_base
from tests.training.tiny import tiny_llama, tiny_t5

ASKED = ["a b c d e f", "g h", "i"]


def made(kind: str, path: Path, **settings: object) -> Policy:
    family, _, lora = kind.partition("+")
    model, tokenizer = load_base(str((tiny_t5 if family == "t5" else tiny_llama)(path)))
    torch.manual_seed(0)
    return Policy(adapted(model, 4 if lora else 0), tokenizer, **settings)


@pytest.fixture(scope="module", params=["llama", "t5", "llama+lora"])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return made(request.param, tmp_path_factory.mktemp("policy"))


def whole_of(prompts: Prompts) -> Prompts:
    """The same prompts with the prefix in every row."""
    shape = (len(prompts.ids), len(prompts.prefix))
    ids = torch.cat([prompts.prefix.expand(shape), prompts.ids], dim=1)
    return Prompts(ids, torch.cat([prompts.mask.new_ones(shape), prompts.mask], dim=1), prompts.prefix[:0])


def sampled(policy: Policy, *, asked: Sequence[str] = ASKED, seed: int = 1, most: int = 8) -> tuple:
    torch.manual_seed(seed)
    prompts = policy.prompts(asked, most=32)
    return prompts, policy.sample(prompts, most=most, temperature=1.3)


def test_a_reply_ends_with_its_end_token(policy: Policy) -> None:
    ended = cut = 0
    for seed in range(12):
        _, replies = sampled(policy, seed=seed, most=3 if seed % 2 else 24)
        for tokens, mask, has_end in zip(replies.tokens, replies.mask, replies.ended, strict=True):
            written = tokens[mask].tolist()
            ends = [token in policy.ends for token in written]
            assert ends == [False] * (len(written) - 1) + [bool(has_end)]
            assert (tokens[~mask] == policy.pad).all()
            assert mask.tolist() == sorted(mask.tolist(), reverse=True)
            ended, cut = ended + bool(has_end), cut + (not has_end)
    assert ended
    assert cut


@pytest.mark.parametrize("asked", [ASKED, ["a b c d e f", "a b g", "a b"]])
def test_a_row_does_not_depend_on_its_neighbours_or_its_padding(policy: Policy, asked: Sequence[str]) -> None:
    prompts, replies = sampled(policy, asked=asked)
    together = policy(prompts, replies, 1.3)
    for row, text in enumerate(asked):
        length = int(replies.mask[row].sum())
        alone = policy.prompts([text], most=32)
        only = Replies(
            replies.tokens[row : row + 1, :length], replies.mask[row : row + 1, :length], replies.ended[row:]
        )
        found = policy(alone, only, 1.3)
        assert torch.allclose(found.logprobs[0], together.logprobs[row, :length], atol=1e-3)
        assert torch.allclose(found.entropy[0], together.entropy[row, :length], atol=1e-3)


def test_the_log_probabilities_are_those_of_the_sampler(policy: Policy) -> None:
    """Drawn many times, the first token's frequencies are the policy's probabilities."""
    prompts = policy.prompts(["a b"] * 3000, most=32)
    torch.manual_seed(3)
    replies = policy.sample(prompts, most=1, temperature=0.7)
    counts = torch.bincount(replies.tokens[:, 0], minlength=64) / 3000
    one = policy.prompts(["a b"] * 64, most=32)
    every = torch.arange(64).clamp(max=len(policy.tokenizer) - 1)[:, None]
    scored = policy(one, Replies(every, torch.ones_like(every, dtype=torch.bool), every[:, 0] >= 0), 0.7)
    wanted = scored.logprobs[:, 0].exp()[: len(policy.tokenizer)]
    assert wanted.sum().item() == pytest.approx(1, abs=1e-4)
    assert torch.allclose(counts[: len(wanted)], wanted, atol=0.04)


def test_greedy_replies_are_those_of_the_models_own_generation(policy: Policy) -> None:
    asked = [" ".join(letters) for letters in ("abcdef", "abg", "abchijk", "abq", "abzy", "abm")]
    prompts = policy.prompts(asked, most=32)
    replies = policy.sample(prompts, most=24, temperature=0)
    whole = whole_of(prompts)
    out = policy.model.generate(
        input_ids=whole.ids,
        attention_mask=whole.mask,
        max_new_tokens=24,
        do_sample=False,
        eos_token_id=policy.ends,
        pad_token_id=policy.pad,
    )[:, 1 if policy.apart else whole.ids.shape[1] :]
    for row, mask in enumerate(replies.mask):
        assert replies.tokens[row][mask].tolist() == out[row, : int(mask.sum())].tolist()


def test_the_first_values_are_zero_and_there_is_one_more_than_tokens(policy: Policy) -> None:
    prompts, replies = sampled(policy)
    values = policy(prompts, replies, 1.0).values
    assert values.shape == (3, replies.tokens.shape[1] + 1)
    assert not values.any()


def test_the_reference_stays_when_the_policy_moves(policy: Policy) -> None:
    prompts, replies = sampled(policy)
    before = policy.reference_logprobs(prompts, replies, 1.0)
    assert torch.allclose(before, policy(prompts, replies, 1.0).logprobs, atol=1e-3)
    trained = [each for each in policy.model.parameters() if each.requires_grad]
    saved = [each.detach().clone() for each in trained]
    with torch.no_grad():
        for each in trained:
            each.add_(0.1 * torch.randn_like(each))
    assert torch.allclose(policy.reference_logprobs(prompts, replies, 1.0), before, atol=1e-3)
    assert not torch.allclose(policy(prompts, replies, 1.0).logprobs, before, atol=1e-2)
    with torch.no_grad():
        for each, old in zip(trained, saved, strict=True):
            each.copy_(old)


@pytest.mark.parametrize("kind", ["llama", "t5", "llama+lora", "t5+lora"])
def test_a_value_model_of_its_own_is_a_copy_that_is_trained(kind: str, tmp_path: Path) -> None:
    policy = made(kind, tmp_path, value="copy")
    prompts, replies = sampled(policy)
    with torch.no_grad():
        policy.head.weight.fill_(0.1)
    policy(prompts, replies, 1.0).values.sum().backward()
    assert all(each.grad is None for each in policy.model.parameters())
    assert any(each.grad is not None for each in policy.critic.parameters())
    frozen = policy.reference
    assert frozen is None if "lora" in kind else all(each.grad is None for each in frozen.parameters())


def test_dropout_stays_off(tmp_path: Path) -> None:
    for kind in ("t5", "llama+lora"):  # both have dropout in their configuration
        policy = made(kind, tmp_path / kind).train()
        if "lora" in kind:
            torch.nn.init.normal_(next(v for name, v in policy.named_parameters() if "lora_B" in name))
        prompts, replies = sampled(policy)
        first, second = (policy(prompts, replies, 1.0).logprobs for _ in range(2))
        assert torch.equal(first, second)


def test_padding_is_no_end_token_and_stands_where_nothing_is_read(policy: Policy) -> None:
    assert policy.pad not in policy.ends
    prompts = policy.prompts(ASKED, most=32)
    assert (prompts.ids[~prompts.mask.bool()] == policy.pad).all()
    empty = ~prompts.mask.bool()[1]
    assert empty.tolist() == sorted(empty.tolist(), reverse=not policy.apart)


def test_a_prompt_that_is_too_long_loses_its_beginning(policy: Policy) -> None:
    cut = whole_of(policy.prompts(["a b c d e f"], most=4)).ids
    whole = whole_of(policy.prompts(["a b c d e f"], most=32)).ids
    assert cut.tolist() == whole[:, -4:].tolist()


def test_a_common_beginning_is_computed_once_and_learns_as_if_it_stood_in_every_row(tmp_path: Path) -> None:
    for kind in ("llama", "llama+lora"):
        policy = made(kind, tmp_path / kind, value="shared")
        torch.nn.init.normal_(policy.head.weight)
        prompts = policy.prompts(["a b c d e f", "a b c g", "a b c i j"], most=32)
        assert (len(prompts.prefix), prompts.ids.shape[1], prompts.width) == (3, 3, 6)
        replies = policy.sample(prompts, most=5)
        found = []
        for asked in (prompts, whole_of(prompts)):
            policy.zero_grad()
            scored = policy(asked, replies, 1.3)
            (scored.logprobs * replies.mask).sum().add((scored.values[:, :-1] * replies.mask).sum()).backward()
            slopes = [each.grad.clone() for each in policy.parameters() if each.grad is not None]
            found.append([scored.logprobs * replies.mask, scored.entropy * replies.mask, *slopes])
        assert all(torch.allclose(once, whole, atol=1e-3) for once, whole in zip(*found, strict=True))


def test_a_prompt_has_no_begin_token_beside_that_of_its_template_and_every_end_token_ends(tmp_path: Path) -> None:
    model, tokenizer = load_base(str(tiny_llama(tmp_path)))
    begin = tokenizer.convert_tokens_to_ids("z")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="z $A", special_tokens=[("z", begin)])
    tokenizer.chat_template = "z {% for message in messages %}{{ message['content'] }}{% endfor %}"
    model.generation_config.eos_token_id = [2, 3]
    policy = Policy(model, tokenizer)
    once = whole_of(policy.prompts([rewriter_prompt(tokenizer, "a", apart=False)], most=32)).ids[0].tolist()
    assert (once[0], once.count(begin)) == (begin, 1)
    assert policy.ends == sorted({2, 3, tokenizer.eos_token_id})
