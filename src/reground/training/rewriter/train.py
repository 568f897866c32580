"""The reinforcement learning of a rewriter, from what the warm-up gave, and the policy that it leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from reground.core.errors import TrainingFailed
from reground.core.fingerprints import files_fingerprint
from reground.core.journal import fingerprint
from reground.evaluation.task import Example
from reground.methods.rewrite_retrieve_read import Prompts
from reground.methods.shared.prompts import render
from reground.models._transformers import prompt_text
from reground.training.fitting import begin, result
from reground.training.ppo.judging import Judge
from reground.training.ppo.optimise import BEST, Optimiser
from reground.training.ppo.policy import Policy
from reground.training.ppo.rollout import Metrics
from reground.training.ppo.settings import Optimising
from reground.training.weights import lora, merged, save, train_upper

WARMUP, MODEL = "warmup", "model"
"""The folders of the two results in a training's folder."""


def optimise_rewriter(
    out: Path,
    base: str,
    settings: Optimising,
    judge: Judge[Example],
    *,
    questions: Sequence[Example],
    validation: Sequence[Example],
    lora_rank: int = 0,
    layers: int = 0,
    rewarded: Mapping[str, float] | None = None,
    pipeline: Mapping[str, JsonValue] | None = None,
    fresh: bool = False,
    on_iteration: Callable[[int, Metrics], None] = lambda number, metrics: None,
) -> Path:
    """Improve a rewriter by PPO on the reward of the pipeline; the result is OUT/model, whole weights.

    base: the warm-up's folder, or any model of `hf/`; an adapter is merged first. lora_rank: 0 trains all weights, or
    those of the last `layers`. questions: to learn from; validation: others, to choose the best weights by. rewarded:
    the reward's weights, and pipeline: what else it depends on, by names that no setting has. Both are recorded.
    Raises ConfigurationError where an earlier training here was another one, and TrainingFailed.
    """
    place = out / "fit" / "ppo"
    own: dict[str, JsonValue] = {
        "lora_rank": lora_rank,
        "layers": layers,
        "validation": questions_fingerprint(validation),
    }
    begin(place, recorded(base, settings, questions, rewarded, pipeline) | own, fresh=fresh)
    policy = make_policy(base, settings, lora_rank=lora_rank, layers=layers)
    optimiser = Optimiser(
        policy,
        settings,
        prompt=lambda example: rewriter_prompt(policy.tokenizer, example.question, apart=policy.apart),
        questions=questions,
        validation=validation,
        judge=judge,
        out=place,
    )
    try:
        best = optimiser.train(on_iteration)
    except TrainingFailed as error:
        if (place / BEST).is_dir():
            _write(optimiser.best(), out / MODEL, base=base)
            raise TrainingFailed(f"{error}; the best weights before that are in {out / MODEL}") from error
        raise
    _write(best, out / MODEL, base=base)
    return out / MODEL


def recorded(
    base: str,
    settings: Optimising,
    questions: Sequence[Example],
    rewarded: Mapping[str, float] | None,
    pipeline: Mapping[str, JsonValue] | None,
) -> dict[str, JsonValue]:
    """What a training of a rewriter is made with; one that goes on must have the same."""
    free = {"checkpoint_every", "threads"}
    return {
        **{name: value for name, value in dataclasses.asdict(settings).items() if name not in free},
        "base": base,
        "base_weights": files_fingerprint(Path(base)),
        "reward": dict(rewarded or {}),
        "questions": questions_fingerprint(questions),
        **(pipeline or {}),
    }


def questions_fingerprint(questions: Sequence[Example]) -> str:
    """What tells questions, with their ids and answers, from others, or from the same in another order."""
    texts = [text for each in questions for text in (each.id, each.question, repr(each.golden_answers))]
    return fingerprint("questions", *texts)


def _write(policy: Policy, place: Path, *, base: str) -> None:
    model = policy.model.merge_and_unload() if hasattr(policy.model, "merge_and_unload") else policy.model
    with result(place) as folder:
        save(model, policy.tokenizer, folder, base=base)


def make_policy(base: str, settings: Optimising, *, lora_rank: int = 0, layers: int = 0) -> Policy:
    """A model as the policy, its new weights drawn by the seed. layers: the last ones to train, 0 for all."""
    from transformers import set_seed

    set_seed(settings.seed)
    model, tokenizer = merged(base)
    train_upper(model, layers, lora_rank=lora_rank)
    if (adapter := lora(lora_rank, seq2seq=model.config.is_encoder_decoder)) is not None:
        from peft import get_peft_model

        model = get_peft_model(model, adapter)
    return Policy(model, tokenizer, value=settings.value)


def rewriter_prompt(tokenizer: Any, question: str, *, apart: bool) -> str:
    """What a trained rewriter reads, as `hf/` shows it when it is used with --rewriter."""
    asked = render(Prompts().trained, question=question)
    return prompt_text(tokenizer, [{"role": "user", "content": asked}], apart=apart)


def trained_rewriter(
    base: str, *, reply_tokens: int = 50, prompt_tokens: int = 512
) -> Callable[[Sequence[str]], list[str]]:
    """A model's greedy rewritings of questions; it is loaded at the first of them."""

    @cache
    def policy() -> Policy:
        return make_policy(base, Optimising())

    def write(questions: Sequence[str]) -> list[str]:
        loaded = policy()
        prompts = [rewriter_prompt(loaded.tokenizer, each, apart=loaded.apart) for each in questions]
        asked = loaded.prompts(prompts, most=prompt_tokens)
        return loaded.texts(loaded.sample(asked, most=reply_tokens, temperature=0))

    return write
