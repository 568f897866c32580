"""A language model as a policy: decoder-only and encoder-decoder, whole and with an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")
pytest.importorskip("peft", reason="needs the extra [train]")

import torch

from reground.training.ppo.policy import Policy, Prompts, Replies
from reground.training.weights import load_base, lora, train_upper
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
    together = policy(prompts, replies, 1.3, measured=True)
    for row, text in enumerate(asked):
        length = int(replies.mask[row].sum())
        alone = policy.prompts([text], most=32)
        only = Replies(
            replies.tokens[row : row + 1, :length], replies.mask[row : row + 1, :length], replies.ended[row:]
        )
        found = policy(alone, only, 1.3, measured=True)
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


def made(kind: str, path: Path, **settings: object) -> Policy:
    family, _, adapted = kind.partition("+")
    model, tokenizer = load_base(str((tiny_t5 if family == "t5" else tiny_llama)(path)))
    if adapted:
        from peft import get_peft_model

        model = get_peft_model(model, lora(4, seq2seq=family == "t5"))
    torch.manual_seed(0)
    return Policy(model, tokenizer, **settings)


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
            scored = policy(asked, replies, 1.3, measured=True)
            (scored.logprobs * replies.mask).sum().add((scored.values[:, :-1] * replies.mask).sum()).backward()
            slopes = [each.grad.clone() for each in policy.parameters() if each.grad is not None]
            found.append([scored.logprobs * replies.mask, scored.entropy * replies.mask, *slopes])
        assert all(torch.allclose(once, whole, atol=1e-3) for once, whole in zip(*found, strict=True))


@pytest.mark.parametrize("value", ["shared", "copy"])
def test_what_is_below_the_trained_layers_is_computed_once(value: str, tmp_path: Path) -> None:
    model, tokenizer = load_base(str(tiny_llama(tmp_path)))
    train_upper(model, 1)
    policy = Policy(model, tokenizer, value=value)
    torch.nn.init.normal_(policy.head.weight)
    with torch.no_grad():
        for each in policy.model.parameters():  # no longer the reference
            if each.requires_grad:
                each.add_(0.1 * torch.randn_like(each))
    for asked in (["a b c d e f", "a b c g", "a b c i j"], ["a b c", "d", "e f"]):
        prompts = policy.prompts(asked, most=32)
        replies = policy.sample(prompts, most=5)
        first = policy(prompts, replies, 1.3, measured=True)
        rows = torch.tensor([2, 1])
        some, said = prompts.at(rows), replies.at(rows)
        kept = first.below.at(rows, some, said, reply_width=replies.tokens.shape[1])
        lowest, computed = policy.model.get_decoder().layers[0], []
        hook = lowest.register_forward_hook(lambda part, given, out, seen=computed: seen.append(1))
        found = []
        for below in (None, kept):
            computed.clear()
            policy.zero_grad()
            scored = policy(some, said, 1.3, measured=True, below=below)
            (scored.logprobs * said.mask).sum().add((scored.values[:, :-1] * said.mask).sum()).backward()
            slopes = [each.grad.clone() for each in policy.parameters() if each.grad is not None]
            reference = policy.reference_logprobs(some, said, 1.3, below=below) * said.mask
            found.append([scored.logprobs * said.mask, scored.entropy * said.mask, reference, *slopes])
            assert bool(computed) == (below is None)
        hook.remove()
        assert len(found[0]) == len(found[1]) > 5
        assert all(torch.allclose(whole, above, atol=1e-3) for whole, above in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Cohere", {"logit_scale": 0.0625}),
        ("Gemma2", {"head_dim": 8, "final_logit_softcapping": 3.0}),
        ("Granite", {"logits_scaling": 8.0}),
    ],
)
def test_a_model_that_scales_or_caps_its_logits_is_computed_whole(
    kind: str, more: dict[str, float], tmp_path: Path
) -> None:
    model, tokenizer = load_base(str(tiny_llama(tmp_path, kind=kind, **more)))
    train_upper(model, 1)
    policy = Policy(model, tokenizer)
    prompts, replies = sampled(policy)
    first = policy(prompts, replies, 1.0)
    again = policy(prompts, replies, 1.0, below=first.below).logprobs
    reference = policy.reference_logprobs(prompts, replies, 1.0, below=first.below)
    for found in (again, reference):
        assert torch.allclose(found * replies.mask, first.logprobs * replies.mask, atol=1e-3)
