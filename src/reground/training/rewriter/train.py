"""The reinforcement learning of a rewriter: PPO, its controls RLOO and GRPO, and the questions that they learn from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from reground.core.errors import ConfigurationError, TrainingFailed
from reground.core.files import files_fingerprint
from reground.core.journal import fingerprint
from reground.evaluation.task import Example
from reground.methods.rewrite_retrieve_read import Prompts
from reground.methods.shared.prompts import render
from reground.models.hf import prompt_text
from reground.training.fitting import Step, arguments, begin, fit, result
from reground.training.ppo.optimise import BEST, Judge, Judging, Metrics, Optimiser, order_of
from reground.training.ppo.policy import Policy, ends_of
from reground.training.settings import FREE, Fitting, Optimising
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
    reward: Mapping[str, JsonValue] | None = None,
    fresh: bool = False,
    on_iteration: Callable[[int, Metrics], None] = lambda number, metrics: None,
) -> Path:
    """Improve a rewriter by PPO on the reward of the pipeline; the result is OUT/model, whole weights.

    base: the warm-up's folder, or any model of `hf/`; an adapter is merged first. questions: to learn from; validation:
    others, to choose the best weights by. reward: what the reward depends on, to be recorded, by names that no setting
    has. Raises ConfigurationError where an earlier training here was another one, and TrainingFailed.
    """
    place = out / "fit" / "ppo"
    own = {"validation": questions_fingerprint(validation)}
    begin(place, {**_recorded(base, settings, questions, reward), **own}, fresh=fresh)
    policy = make_policy(base, settings)
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


def _recorded(
    base: str, settings: Optimising, questions: Sequence[Example], reward: Mapping[str, JsonValue] | None
) -> dict[str, JsonValue]:
    """What a training of a rewriter is made with; one that goes on must have the same."""
    return {
        **{name: value for name, value in dataclasses.asdict(settings).items() if name not in FREE},
        "base": base,
        "base_weights": files_fingerprint(Path(base)),
        "questions": questions_fingerprint(questions),
        **(reward or {}),
    }


def questions_fingerprint(questions: Sequence[Example]) -> str:
    """What tells questions, with their ids and answers, from others, or from the same in another order."""
    texts = [text for each in questions for text in (each.id, each.question, repr(each.golden_answers))]
    return fingerprint("questions", *texts)


def _write(policy: Policy, place: Path, *, base: str) -> None:
    model = policy.model.merge_and_unload() if hasattr(policy.model, "merge_and_unload") else policy.model
    with result(place) as folder:
        save(model, policy.tokenizer, folder, base=base)


def make_policy(base: str, settings: Optimising) -> Policy:
    """A model as the policy, its new weights drawn by the seed."""
    from transformers import set_seed

    set_seed(settings.seed)
    model, tokenizer = merged(base)
    train_upper(model, settings.layers, lora_rank=settings.lora_rank)
    if (adapter := lora(settings.lora_rank, seq2seq=model.config.is_encoder_decoder)) is not None:
        from peft import get_peft_model

        model = get_peft_model(model, adapter)
    return Policy(model, tokenizer, value=settings.value)


def rewriter_prompt(tokenizer: Any, question: str, *, apart: bool) -> str:
    """What a trained rewriter reads, as `hf/` shows it when it is used with --rewriter."""
    asked = render(Prompts().trained, question=question)
    return prompt_text(tokenizer, [{"role": "user", "content": asked}], apart=apart)


Control = Literal["rloo", "grpo"]
GROUP = 4
"""Replies to one question, which the controls compare."""


def fit_control(
    out: Path,
    base: str,
    kind: Control,
    settings: Optimising,
    judge: Judge[Example],
    *,
    questions: Sequence[Example],
    reward: Mapping[str, JsonValue] | None = None,
    fresh: bool = False,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Path:
    """Improve a rewriter by TRL's RLOO (Ahmadian et al. 2024) or GRPO (Shao et al. 2024): controls for PPO.

    They have no value model. They get the same questions, reward and number of replies; there are no validation
    questions, the last weights count. The result is OUT/rloo or OUT/grpo. Decoder-only models alone. The parameters are
    those of `optimise_rewriter`.
    """
    if settings.episodes % settings.batch or settings.episodes % GROUP:
        raise ConfigurationError(f"--episodes must be a multiple of --batch and of {GROUP}, the replies to a question")
    place = out / "fit" / kind
    begin(place, _recorded(base, settings, questions, reward), fresh=fresh)
    model, tokenizer = merged(base)
    train_upper(model, settings.layers, lora_rank=settings.lora_rank)
    if model.config.is_encoder_decoder:
        raise ConfigurationError(f"{kind} is for decoder-only models: train an encoder-decoder by ppo")
    with Judging(judge) as judging:
        trainer = _trainer(kind, model, tokenizer, settings, judging, questions, place)
        fit(trainer, place, on_step=on_step)
    fitted = trainer.model.merge_and_unload() if settings.lora_rank else trainer.model
    with result(out / kind) as folder:
        save(fitted, tokenizer, folder, base=base)
    return out / kind


def _trainer(
    kind: Control,
    model: Any,
    tokenizer: Any,
    settings: Optimising,
    judging: Judging[Example],
    questions: Sequence[Example],
    place: Path,
) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    ends = set(ends_of(model, tokenizer))

    def paid(prompts: Any, completions: list[str], completion_ids: list[list[int]], place: list[int], **_: Any) -> Any:
        waiting = [judging.submit(questions[at], text) for at, text in zip(place, completions, strict=True)]
        scores = [each.result()["score"] for each in waiting]
        if settings.no_end is None:
            return scores
        ended = [not ends.isdisjoint(ids) for ids in completion_ids]
        return [score if end else settings.no_end for score, end in zip(scores, ended, strict=True)]

    steps = settings.iterations * settings.epochs * settings.episodes // settings.batch
    common = Fitting(
        learning_rate=settings.learning_rate,
        warmup=0.0,
        batch=settings.batch,
        seed=settings.seed,
        checkpoint_every=max(1, settings.epochs * settings.episodes // settings.batch),
        threads=settings.threads,
        precision=settings.precision,
    )
    given = {
        **arguments(common, place),
        "max_steps": steps,
        "max_grad_norm": settings.max_norm,
        "beta": settings.beta,
        "epsilon": settings.clip,
        "temperature": settings.temperature,
        "max_completion_length": settings.reply_tokens,
        "num_generations": GROUP,
        "generation_batch_size": settings.episodes,
        "num_iterations": settings.epochs,
        "disable_dropout": True,
        "gradient_checkpointing": False,
        "shuffle_dataset": False,
    }
    prompts = [rewriter_prompt(tokenizer, each.question, apart=False) for each in questions]
    places = _places(len(questions), settings)
    config, trainer = (RLOOConfig, RLOOTrainer) if kind == "rloo" else (GRPOConfig, GRPOTrainer)
    return _as_they_are(trainer)(
        model=model,
        reward_funcs=paid,
        args=config(**given),
        train_dataset=Dataset.from_dict({"prompt": [prompts[at] for at in places], "place": places}),
        processing_class=tokenizer,
        peft_config=lora(settings.lora_rank),
    )


def _places(total: int, settings: Optimising) -> list[int]:
    """The questions of the whole training, each pass in an order of its own as in PPO.

    TRL's own orders come from a generator that begins again where a training is resumed.
    """
    count = settings.iterations * settings.episodes // GROUP
    passes = (order_of(total, settings.seed, epoch) for epoch in range(-(-count // total)))
    return [at for order in passes for at in order][:count]


def _as_they_are(trainer: Any) -> Any:
    """TRL's trainer, but reading prompts as PPO and `hf/` do: a chat template has written the begin token already."""

    class Trainer(trainer):  # type: ignore[misc]
        def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
            ids = self.processing_class(text=prompts, add_special_tokens=False)["input_ids"]
            return ids, None, {}

    return Trainer
