"""Supervised fine-tuning on demonstrations: the likelihood of the last message, given those before it.

A prompt is tokenised exactly as `hf/` does when the model is used, and the reply's tokens follow it. Decoder-only
models are fitted by TRL's SFTTrainer, encoder-decoders by transformers' Seq2SeqTrainer.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reground.core.errors import ConfigurationError, DataError
from reground.core.journal import fingerprint
from reground.training.fitting import Step, arguments, begin, fit, require_training, result
from reground.training.rows import Demonstration
from reground.training.settings import Fitting
from reground.training.weights import context_of, load_base, lora, save

Pair = tuple[list[int], list[int]]
"""The tokens of a prompt and of its reply."""

_POOL = 50
"""Batches that are drawn together before their pairs are ordered by length."""


def fit_named(
    out: Path,
    name: str,
    rows: Sequence[Demonstration],
    base: str,
    settings: Fitting,
    *,
    fresh: bool = False,
    keep_epochs: bool = False,
    cut: bool = True,
    on_step: Callable[[Step], None] = lambda step: None,
    on_note: Callable[[str], None] = lambda text: None,
) -> Path:
    """Fine-tune a base in the folder of a training, with checkpoints in OUT/fit/NAME, where an interrupted fit goes on.

    The result is OUT/NAME: an adapter for LoRA, else whole weights. base: as in `hf/`. fresh: discard checkpoints, and
    the models after each pass. keep_epochs: keep the model after each pass too, in `epoch_place(OUT/NAME, number)`.
    cut: whether rows longer than max_length lose the beginning of their prompt; else they are left out. on_note: told
    how many there are, if any. Raises ConfigurationError where an interrupted fit had other settings or rows, what
    `fit` and `load_base` raise, and DataError without rows.
    """
    require_training()
    from transformers import set_seed

    if not rows:
        raise DataError("there are no demonstrations to fit to", path=out)
    folder, place = out / "fit" / name, out / name
    content = fingerprint("mixture", *(message.content for row in rows for message in row.messages))
    begin(folder, {**dataclasses.asdict(settings), "base": base, "mixture": content}, fresh=fresh)
    if fresh:
        drop_epochs(place)  # fewer passes may follow
    set_seed(settings.seed)
    model, tokenizer = load_base(base, frozen=settings.lora_rank > 0, bfloat16=settings.bfloat16)
    apart, most = model.config.is_encoder_decoder, settings.max_length
    whole = [tokenised(tokenizer, row, most=None, apart=apart) for row in rows]
    pairs = [pair for pair in whole if _fits(pair, most, apart=apart)]
    if long := len(whole) - len(pairs):
        fate = "lose the beginning of their prompt" if cut else "are left out"
        on_note(f"{long} of {len(rows)} rows are longer than max_length={most} and {fate}")
    if cut:
        pairs = [_shortened(pair, most, apart=apart) for pair in whole]
    if not pairs:
        raise DataError(f"no demonstration fits max_length={most}: raise it", path=out)
    longest, room = max(pairs, key=_length), context_of(model.config)
    if (needed := max(map(len, longest)) if apart else _length(longest)) > room:
        raise ConfigurationError(
            f"the base has room for {room} tokens, and a demonstration has {needed}: choose another base"
        )
    adapter = lora(settings.lora_rank, seq2seq=apart)
    given = {**arguments(settings, folder), **_in_order()}
    trainer = (_seq2seq if apart else _decoder)(model, tokenizer, by_length(pairs, settings), given, adapter)

    def write(where: Path) -> None:
        with result(where) as part:
            save(trainer.model, tokenizer, part, base=base)

    def after(epoch: int) -> None:
        if keep_epochs:
            write(epoch_place(place, epoch))

    fit(trainer, folder, on_step=on_step, on_epoch=after)
    write(place)
    return place


def epoch_place(place: Path, epoch: int) -> Path:
    """Where `keep_epochs` keeps the model after a pass; passes count from 1."""
    return place.with_name(f"{place.name}-epoch{epoch}")


def epochs_of(place: Path) -> list[Path]:
    """The models after each pass that are there, in order."""
    found: list[Path] = []
    while (each := epoch_place(place, len(found) + 1)).is_dir():
        found.append(each)
    return found


def drop_epochs(place: Path) -> None:
    """Remove the models after each pass, the last first. Each is renamed first: none is left half removed."""
    gone = place.with_name(f".{place.name}.gone")
    for each in reversed(epochs_of(place)):
        shutil.rmtree(gone, ignore_errors=True)
        each.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def by_length(pairs: Sequence[Pair], settings: Fitting) -> list[Pair]:
    """The pairs in an order drawn by the seed, but with those of about the same length in one batch.

    A batch is padded to its longest pair. Batches by chance are half padding where prompts hold passages.
    """
    draw = random.Random(settings.seed)
    mixed = list(pairs)
    draw.shuffle(mixed)
    wide = settings.batch * _POOL
    pools = (sorted(mixed[start : start + wide], key=_length, reverse=True) for start in range(0, len(mixed), wide))
    rest = [pair for pool in pools for pair in pool]
    batches = [rest[start : start + settings.batch] for start in range(0, len(rest), settings.batch)]
    last = batches.pop() if len(batches[-1]) < settings.batch else []
    draw.shuffle(batches)
    return [*(pair for batch in batches for pair in batch), *last]


def _in_order() -> dict[str, str]:
    """Keep to the order given, with a transformers that can; an older one shuffles, and pads more."""
    from transformers import TrainingArguments

    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    return {"train_sampling_strategy": "sequential"} if "train_sampling_strategy" in known else {}


def _length(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1])


def tokenised(tokenizer: Any, row: Demonstration, *, most: int | None, apart: bool) -> Pair:
    """The prompt's tokens and the reply's with its end token.

    most: what is longer loses the beginning of its prompt. Raises ConfigurationError for a reply that does not fit.
    """
    from reground.models.hf import prompt_text

    *asked, reply = row.messages
    if reply.role != "assistant":
        raise ConfigurationError(f"the last message of a demonstration is the assistant's, not the {reply.role}'s")
    turns = [{"role": turn.role, "content": turn.content} for turn in asked]
    prompt = tokenizer(prompt_text(tokenizer, turns, apart=apart), add_special_tokens=apart)["input_ids"]
    pair = prompt, [*tokenizer(reply.content, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    return pair if most is None else _shortened(pair, most, apart=apart)


def _fits(pair: Pair, most: int, *, apart: bool) -> bool:
    prompt, reply = map(len, pair)
    return (prompt <= most and reply < most) if apart else prompt + reply <= most


def _shortened(pair: Pair, most: int, *, apart: bool) -> Pair:
    prompt, reply = pair
    if len(reply) >= most:
        raise ConfigurationError(f"a reply has {len(reply)} tokens and does not fit max_length={most}: raise it")
    return prompt[-(most if apart else most - len(reply)) :], reply


def _decoder(model: Any, tokenizer: Any, pairs: Sequence[Pair], given: dict[str, Any], adapter: Any) -> Any:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    columns = {
        "input_ids": [prompt + said for prompt, said in pairs],
        "completion_mask": [[0] * len(prompt) + [1] * len(said) for prompt, said in pairs],
    }
    plain = given["use_cpu"] and _scores_plainly(model, pairs[0][0][:8])
    return (_on_processor() if plain else SFTTrainer)(
        model=model,
        args=SFTConfig(
            **given, max_length=None, completion_only_loss=True, gradient_checkpointing=not given["use_cpu"]
        ),
        train_dataset=Dataset.from_dict(columns),
        processing_class=tokenizer,
        peft_config=adapter,
    )


def _scores_plainly(model: Any, tokens: list[int]) -> bool:
    """Whether the output layer's numbers are the logits: Granite and Cohere scale them, Gemma caps them."""
    import torch

    model.eval()
    with torch.no_grad():
        given = torch.tensor([tokens], device=model.device)
        plain = model.get_output_embeddings()(model.base_model(input_ids=given).last_hidden_state)
        found = bool(torch.allclose(model(input_ids=given).logits, plain, rtol=1e-3, atol=1e-3))
    model.train()
    return found


def _on_processor() -> Any:
    """SFTTrainer with the same loss, computed at the replies' tokens alone.

    Off a GPU, TRL scores the whole vocabulary for each token of the prompt too, which takes longer than the model.
    """
    import torch
    from trl import SFTTrainer

    class OnReplies(SFTTrainer):  # type: ignore[misc]
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            bare = self.accelerator.unwrap_model(model)
            bare = bare.get_base_model() if hasattr(bare, "get_base_model") else bare
            wanted = inputs["labels"][:, 1:]
            counts = wanted != -100
            with self.accelerator.autocast():
                read = bare.base_model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
                logits = bare.get_output_embeddings()(read.last_hidden_state[:, :-1][counts]).float()
            loss = torch.nn.functional.cross_entropy(logits, wanted[counts], reduction="sum")
            return loss / (counts.sum() if num_items_in_batch is None else num_items_in_batch)

    return OnReplies


def _by_token() -> Any:
    """Seq2SeqTrainer with the mean over the tokens of all batches of a step.

    T5 takes the number of these tokens and gives the mean of its own batch all the same, so the sum of several batches
    would be as many times too large.
    """
    from transformers import Seq2SeqTrainer

    class ByToken(Seq2SeqTrainer):  # type: ignore[misc]
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            count = (inputs["labels"] != -100).sum()
            mean = super().compute_loss(model, inputs)
            return mean if num_items_in_batch is None else mean * count / num_items_in_batch

    return ByToken


def _seq2seq(model: Any, tokenizer: Any, pairs: Sequence[Pair], given: dict[str, Any], adapter: Any) -> Any:
    from datasets import Dataset
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainingArguments

    if adapter is not None:
        from peft import get_peft_model

        model = get_peft_model(model, adapter)
    columns = {"input_ids": [prompt for prompt, _ in pairs], "labels": [said for _, said in pairs]}
    return _by_token()(
        model=model,
        args=Seq2SeqTrainingArguments(**given),
        train_dataset=Dataset.from_dict(columns),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )
