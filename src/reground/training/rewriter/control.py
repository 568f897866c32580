"""Controls for PPO: RLOO and GRPO of TRL on the same questions, replies and reward.

RLOO (Ahmadian et al. 2024) and GRPO (Shao et al. 2024) have no value model: they compare several replies to one
question. As many replies are sampled as in PPO with the same settings. Decoder-only models alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from reground.core.errors import ConfigurationError
from reground.evaluation.task import Example
from reground.training.fitting import Fitting, Step, arguments, begin, fit, result
from reground.training.ppo.judging import Judge, Judging
from reground.training.ppo.policy import ends_of
from reground.training.ppo.rollout import order_of
from reground.training.ppo.settings import Optimising
from reground.training.rewriter.train import recorded, rewriter_prompt
from reground.training.weights import lora, merged, save, train_upper

Control = Literal["rloo", "grpo"]


def fit_control(
    out: Path,
    base: str,
    kind: Control,
    settings: Optimising,
    judge: Judge[Example],
    *,
    questions: Sequence[Example],
    group: int = 4,
    lora_rank: int = 0,
    layers: int = 0,
    rewarded: Mapping[str, float] | None = None,
    pipeline: Mapping[str, JsonValue] | None = None,
    fresh: bool = False,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Path:
    """Improve a rewriter by RLOO or GRPO; the result is OUT/rloo or OUT/grpo.

    group: replies to one question; it divides the episodes of an iteration. The other parameters are those of
    `optimise_rewriter`; there are no validation questions, the last weights count.
    """
    if settings.episodes % settings.batch or settings.episodes % group:
        raise ConfigurationError(f"--episodes must be a multiple of --batch and of {group}, the replies to a question")
    place = out / "fit" / kind
    own: dict[str, JsonValue] = {"lora_rank": lora_rank, "layers": layers, "group": group}
    begin(place, recorded(base, settings, questions, rewarded, pipeline) | own, fresh=fresh)
    model, tokenizer = merged(base)
    train_upper(model, layers, lora_rank=lora_rank)
    if model.config.is_encoder_decoder:
        raise ConfigurationError(f"{kind} is for decoder-only models: train an encoder-decoder by ppo")
    with Judging(judge) as judging:
        trainer = _trainer(kind, model, tokenizer, settings, judging, questions, place, group, lora_rank)
        fit(trainer, place, on_step=on_step)
    fitted = trainer.model.merge_and_unload() if lora_rank else trainer.model
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
    group: int,
    lora_rank: int,
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
        "num_generations": group,
        "generation_batch_size": settings.episodes,
        "num_iterations": settings.epochs,
        "disable_dropout": True,
        "gradient_checkpointing": False,
        "shuffle_dataset": False,
    }
    prompts = [rewriter_prompt(tokenizer, each.question, apart=False) for each in questions]
    places = _places(len(questions), settings, group)
    config, trainer = (RLOOConfig, RLOOTrainer) if kind == "rloo" else (GRPOConfig, GRPOTrainer)
    return _as_they_are(trainer)(
        model=model,
        reward_funcs=paid,
        args=config(**given),
        train_dataset=Dataset.from_dict({"prompt": [prompts[at] for at in places], "place": places}),
        processing_class=tokenizer,
        peft_config=lora(lora_rank),
    )


def _places(total: int, settings: Optimising, group: int) -> list[int]:
    """The questions of the whole training, each pass in an order of its own as in PPO.

    TRL's own orders come from a generator that begins again where a training is resumed.
    """
    count = settings.iterations * settings.episodes // group
    passes = (order_of(total, settings.seed, epoch) for epoch in range(-(-count // total)))
    return [at for order in passes for at in order][:count]


def _as_they_are(trainer: Any) -> Any:
    """TRL's trainer, but reading prompts as PPO and `hf/` do: a chat template has written the begin token already."""

    class Trainer(trainer):  # type: ignore[misc]
        def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
            ids = self.processing_class(text=prompts, add_special_tokens=False)["input_ids"]
            return ids, None, {}

    return Trainer
