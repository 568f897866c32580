"""A language model as a policy: decoder-only and encoder-decoder, whole and with an adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("peft", reason="needs the extra [train]")

import torch

from reground.training.ppo.policy import Policy, Replies
from reground.training.weights import load_base, lora
from tests.training.tiny import tiny_llama, tiny_t5

ASKED = ["a b c d e f", "g h", "i"]


@pytest.fixture(scope="module", params=["llama", "t5", "llama+lora"])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    kind, _, adapted = request.param.partition("+")
    make = tiny_llama if kind == "llama" else tiny_t5
    model, tokenizer = load_base(str(make(tmp_path_factory.mktemp(kind))))
    if adapted:
        from peft import get_peft_model

        model = get_peft_model(model, lora(4))
    torch.manual_seed(0)
    return Policy(model, tokenizer)


def sampled(policy: Policy, *, seed: int = 1, most: int = 8) -> tuple:
    torch.manual_seed(seed)
    prompts = policy.prompts(ASKED, most=32)
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


def test_a_row_does_not_depend_on_its_neighbours_or_its_padding(policy: Policy) -> None:
    prompts, replies = sampled(policy)
    together = policy(prompts, replies, 1.3)
    for row, text in enumerate(ASKED):
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


def test_a_value_model_of_its_own_is_a_copy_that_is_trained(tmp_path: Path) -> None:
    model, tokenizer = load_base(str(tiny_llama(tmp_path)))
    policy = Policy(model, tokenizer, value="copy")
    prompts, replies = sampled(policy)
    with torch.no_grad():
        policy.head.weight.fill_(0.1)
    policy(prompts, replies, 1.0).values.sum().backward()
    assert all(each.grad is None for each in policy.model.parameters())
    assert any(each.grad is not None for each in policy.critic.parameters())
    assert all(each.grad is None for each in policy.reference.parameters())
