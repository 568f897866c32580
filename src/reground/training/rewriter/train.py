"""The two fits of a rewriter: the warm-up, and reinforcement learning from what the warm-up gave."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reground.evaluation.task import Example
from reground.methods.rewrite_retrieve_read import Prompts
from reground.methods.shared.prompts import render
from reground.models._transformers import prompt_text
from reground.training.demonstrate import fit_demonstrations
from reground.training.fitting import Fitting, Step, begin, result
from reground.training.ppo.judging import Judge
from reground.training.ppo.optimise import Metrics, Optimiser
from reground.training.ppo.policy import Policy
from reground.training.ppo.settings import Optimising
from reground.training.rows import Demonstration
from reground.training.weights import lora, merged, save

WARMUP, MODEL = "warmup", "model"
"""The folders of the two results in a training's folder."""


def fit_warmup(
    out: Path,
    rows: Sequence[Demonstration],
    base: str,
    settings: Fitting,
    *,
    fresh: bool = False,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Path:
    """Fine-tune the base on the likelihood of good rewritings; the result is OUT/warmup."""
    place = out / "fit" / WARMUP
    texts = [message.content for row in rows for message in row.messages]
    begin(
        place,
        {**dataclasses.asdict(settings), "base": base, "rows": len(rows), "characters": sum(map(len, texts))},
        fresh=fresh,
    )
    return fit_demonstrations(rows, base, settings, place, out / WARMUP, on_step=on_step)


def optimise_rewriter(
    out: Path,
    base: str,
    settings: Optimising,
    judge: Judge[Example],
    *,
    questions: Sequence[Example],
    validation: Sequence[Example],
    lora_rank: int = 0,
    rewarded: dict[str, float] | None = None,
    fresh: bool = False,
    on_iteration: Callable[[int, Metrics], None] = lambda number, metrics: None,
) -> Path:
    """Improve a rewriter by PPO on the reward of the pipeline; the result is OUT/model, whole weights.

    base: the warm-up's folder, or any model of `hf/`; an adapter is merged first. lora_rank: 0 trains all weights.
    questions: to learn from; validation: others, to choose the best weights by. rewarded: the reward's weights, for the
    record.
    """
    place = out / "fit" / "ppo"
    recorded = {**dataclasses.asdict(settings), "base": base, "lora_rank": lora_rank, "reward": dict(rewarded or {})}
    free = {"checkpoint_every", "threads"}
    begin(place, {key: value for key, value in recorded.items() if key not in free}, fresh=fresh)
    policy = make_policy(base, settings, lora_rank=lora_rank)
    optimiser = Optimiser(
        policy,
        settings,
        prompt=lambda example: rewriter_prompt(policy.tokenizer, example.question, apart=policy.apart),
        questions=questions,
        validation=validation,
        judge=judge,
        out=place,
    )
    best = optimiser.train(on_iteration)
    model = best.model.merge_and_unload() if lora_rank else best.model
    with result(out / MODEL) as folder:
        save(model, best.tokenizer, folder, base=base)
    return out / MODEL


def make_policy(base: str, settings: Optimising, *, lora_rank: int = 0) -> Policy:
    """A model as the policy, its new weights drawn by the seed."""
    from transformers import set_seed

    set_seed(settings.seed)
    model, tokenizer = merged(base)
    if (adapter := lora(lora_rank, seq2seq=model.config.is_encoder_decoder)) is not None:
        from peft import get_peft_model

        model = get_peft_model(model, adapter)
    return Policy(model, tokenizer, value=settings.value)


def rewriter_prompt(tokenizer: Any, question: str, *, apart: bool) -> str:
    """What a trained rewriter reads, as `hf/` shows it when it is used with --rewriter."""
    asked = render(Prompts().trained, question=question)
    return prompt_text(tokenizer, [{"role": "user", "content": asked}], apart=apart)


def rewritings(
    base: str, questions: Sequence[str], *, reply_tokens: int = 50, prompt_tokens: int = 512, batch: int = 16
) -> list[str]:
    """Greedy rewritings of questions by a model."""
    policy = make_policy(base, Optimising())
    texts: list[str] = []
    for start in range(0, len(questions), batch):
        some = [
            rewriter_prompt(policy.tokenizer, each, apart=policy.apart) for each in questions[start : start + batch]
        ]
        texts += policy.texts(policy.sample(policy.prompts(some, most=prompt_tokens), most=reply_tokens, temperature=0))
    return texts
