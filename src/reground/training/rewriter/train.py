"""The reinforcement learning of a rewriter by PPO, and the questions that it learns from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from reground.core.errors import TrainingFailed
from reground.core.files import files_fingerprint
from reground.core.journal import fingerprint
from reground.core.language import Message
from reground.evaluation.task import Example
from reground.methods.rewrite_retrieve_read import Prompts
from reground.methods.shared.prompts import render
from reground.models.hf import prompt_text
from reground.training.fitting import begin, newest_checkpoint, result
from reground.training.ppo.optimise import BEST, Judge, Metrics, Optimiser
from reground.training.ppo.policy import Policy
from reground.training.settings import FREE, Optimising
from reground.training.weights import adapted, merged, save, train_upper


def optimise_rewriter(
    out: Path,
    base: str,
    settings: Optimising,
    judge: Judge[Example],
    *,
    questions: Sequence[Example],
    validation: Sequence[Example],
    reward: Mapping[str, JsonValue] | None = None,
    fresh: bool = False,
    on_iteration: Callable[[int, Metrics], None] = lambda number, metrics: None,
) -> Path:
    """Improve a rewriter by PPO on the reward of the pipeline; the result is OUT/model, whole weights.

    base: the warm-up's folder, or any model of `hf/`; an adapter is merged first. questions: to learn from; validation:
    others, to choose the best weights by. reward: what the reward depends on, to be recorded, by names that no setting
    has. Raises ConfigurationError where an earlier training here was another one, and TrainingFailed.
    """
    from transformers import set_seed

    place, model = out / "fit" / "ppo", out / "model"
    recorded: dict[str, JsonValue] = {
        **{name: value for name, value in dataclasses.asdict(settings).items() if name not in FREE},
        "base": base,
        "base_weights": files_fingerprint(Path(base)),
        "questions": _fingerprint(questions),
        "validation": _fingerprint(validation),
        **(reward or {}),
    }
    if not fresh:
        begin(place, recorded, fresh=newest_checkpoint(place) is None)
    set_seed(settings.seed)  # draws new weights
    weights, tokenizer = merged(base)
    train_upper(weights, settings.layers, lora_rank=settings.lora_rank)
    policy = Policy(adapted(weights, settings.lora_rank), tokenizer, value=settings.value)
    optimiser = Optimiser(
        policy=policy,
        settings=settings,
        prompt=lambda example: rewriter_prompt(policy.tokenizer, example.question, apart=policy.apart),
        questions=questions,
        validation=validation,
        judge=judge,
        out=place,
    )
    if fresh:  # now that the base will do
        begin(place, recorded, fresh=True)
    try:
        _write(optimiser.train(on_iteration), model, base)
    except TrainingFailed as error:
        if not (place / BEST).is_dir():
            raise
        _write(optimiser.best(), model, base)
        raise TrainingFailed(f"{error}; the best weights before that are in {model}") from error
    return model


def _fingerprint(questions: Sequence[Example]) -> str:
    """What tells questions, with their ids and answers, from others, or from the same in another order."""
    texts = [text for each in questions for text in (each.id, each.question, repr(each.golden_answers))]
    return fingerprint("questions", *texts)


def _write(policy: Policy, place: Path, base: str) -> None:
    model = policy.model.merge_and_unload() if hasattr(policy.model, "merge_and_unload") else policy.model
    with result(place) as folder:
        save(model, policy.tokenizer, folder, base=base)


def rewriter_prompt(tokenizer: Any, question: str, *, apart: bool) -> str:
    """What a trained rewriter reads, as `hf/` shows it when it is used with --rewriter."""
    prompt = render(Prompts().trained, question=question)
    return prompt_text(tokenizer, [Message(role="user", content=prompt)], apart=apart)
