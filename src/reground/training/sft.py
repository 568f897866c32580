"""Supervised fine-tuning on demonstrations: the likelihood of the last message, given those before it.

A prompt is tokenised exactly as `hf/` does when the model is used, and the reply's tokens follow it: in the same
sequence for a decoder-only model, as one of their own for an encoder-decoder.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reground.core.errors import ConfigurationError, DataError
from reground.core.files import files_fingerprint
from reground.core.journal import fingerprint
from reground.training import fitting
from reground.training.fitting import Step, by_length, trainer_class
from reground.training.rows import Demonstration
from reground.training.settings import Fitting
from reground.training.weights import adapted, context_of, load_base, save

Pair = tuple[list[int], list[int]]
"""The tokens of a prompt and of its reply."""

_POOL = 50
"""Batches that are drawn together before their pairs are ordered by length."""
_UNCOUNTED = -100
"""The label of a token that is not learned."""


def fit_named(
    out: Path,
    name: str,
    rows: Sequence[Demonstration],
    base: str,
    settings: Fitting,
    *,
    fresh: bool = False,
    keep_epochs: bool = False,
    truncate: bool = True,
    on_step: Callable[[Step], None] = lambda step: None,
    on_note: Callable[[str], None] = lambda text: None,
) -> Path:
    """Fine-tune a base in the folder of a training, with checkpoints in OUT/fit/NAME, where an interrupted fit goes on.

    The result is OUT/NAME: an adapter for LoRA, else whole weights. base: as in `hf/`. fresh: discard checkpoints, and
    the models after each pass. keep_epochs: keep the model after each pass too, in OUT/NAME-epoch1 and so on. truncate:
    whether rows longer than max_length lose the beginning of their prompt; else they are left out. on_note: told how
    many there are, if any. Raises ConfigurationError where an interrupted fit had other settings or rows, what `fit`
    and `load_base` raise, and DataError without rows.
    """
    fitting.require_training()
    from transformers import set_seed

    if not rows:
        raise DataError("there are no demonstrations to fit to", path=out)
    folder, place = out / "fit" / name, out / name
    if place in folder.parents or (place.exists() and not (folder / "settings.json").exists()):
        raise ConfigurationError(f"{place} is there, and no fit in {out} made it: move it, or choose another name")
    content = fingerprint("mixture", *(repr([(each.role, each.content) for each in row.messages]) for row in rows))
    weights = files_fingerprint(Path(base))
    recorded = {**dataclasses.asdict(settings), "base": base, "base_weights": weights, "mixture": content}
    if not fresh:  # without a checkpoint, other settings lose nothing
        fitting.begin(folder, recorded, fresh=fitting.newest_checkpoint(folder) is None)
    set_seed(settings.seed)
    model, tokenizer = load_base(base, frozen=settings.lora_rank > 0, bfloat16=settings.bfloat16)
    pairs = _pairs(model, tokenizer, rows, settings.max_length, out, truncate=truncate, on_note=on_note)
    trainer = _trainer(adapted(model, settings.lora_rank), tokenizer, pairs, settings, folder)
    if fresh:  # now that the base and the rows will do
        fitting.begin(folder, recorded, fresh=True)
        for each in place.parent.glob(f"{place.name}-epoch*"):
            shutil.rmtree(each)  # fewer passes may follow

    def write(where: Path) -> None:
        with fitting.result(where) as part:
            save(trainer.model, tokenizer, part, base=base)

    def after(epoch: int) -> None:
        if keep_epochs:
            write(place.with_name(f"{place.name}-epoch{epoch}"))

    most = settings.batch_tokens
    fitting.fit(trainer, folder, length=lambda pair: sum(map(len, pair)), most=most, on_step=on_step, on_epoch=after)
    write(place)
    return place


class Passes(list[Pair]):
    """Pairs in another order each pass, with those of about the same length in one batch.

    The order depends on the seed and the pass alone, so a resumed fit goes on in it. Batches by chance are half padding
    where prompts hold passages.
    """

    def __init__(self, pairs: Sequence[Pair], settings: Fitting) -> None:
        self.pairs, self.settings = pairs, settings
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Begin a pass; the trainer calls it. Passes count from 0."""
        draw = random.Random(repr((self.settings.seed, epoch)))
        batches = by_length([sum(map(len, pair)) for pair in self.pairs], self.settings.batch, draw, pool=_POOL)
        self[:] = [self.pairs[row] for batch in batches for row in batch]


def _pairs(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Demonstration],
    most: int,
    out: Path,
    *,
    truncate: bool,
    on_note: Callable[[str], None],
) -> list[Pair]:
    """The tokens of all rows that are learned, none longer than `most` nor than the model's context."""
    apart = model.config.is_encoder_decoder

    def longest(pair: Pair) -> int:
        return max(len(pair[0]), len(pair[1]) + 1) if apart else sum(map(len, pair))

    whole = [tokenised(tokenizer, row, apart=apart) for row in rows]
    pairs = [pair for pair in whole if longest(pair) <= most]
    if long := len(whole) - len(pairs):
        fate = "lose the beginning of their prompt" if truncate else "are left out"
        on_note(f"{long} of {len(rows)} rows are longer than max_length={most} and {fate}")
    if truncate:
        pairs = [shortened(pair, most, apart=apart) for pair in whole]
    if not pairs:
        raise DataError(f"no demonstration fits max_length={most}: raise it", path=out)
    needed, room = max(map(longest, pairs)), context_of(model.config)
    if needed > room:
        raise ConfigurationError(
            f"the base has room for {room} tokens, and a demonstration has {needed}: choose another base"
        )
    return pairs


def tokenised(tokenizer: Any, row: Demonstration, *, apart: bool) -> Pair:
    """The prompt's tokens and the reply's with its end token. apart: whether the model is an encoder-decoder."""
    from reground.models.hf import prompt_ids, prompt_text

    *messages, reply = row.messages
    if reply.role != "assistant":
        raise ConfigurationError(f"the last message of a demonstration is the assistant's, not the {reply.role}'s")
    prompt = prompt_ids(tokenizer, prompt_text(tokenizer, messages, apart=apart), apart=apart)
    return prompt, [*tokenizer(reply.content, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


def shortened(pair: Pair, most: int, *, apart: bool) -> Pair:
    """What is longer loses the beginning of its prompt. Raises ConfigurationError for a reply that does not fit."""
    prompt, reply = pair
    if len(reply) >= most:
        raise ConfigurationError(f"a reply has {len(reply)} tokens and does not fit max_length={most}: raise it")
    return prompt[-(most if apart else most - len(reply)) :], reply


def _trainer(model: Any, tokenizer: Any, pairs: Sequence[Pair], settings: Fitting, folder: Path) -> Any:
    """A trainer whose loss is the mean over the tokens of the replies of a step, all its batches together.

    Logits are computed from the first reply's first token on, where a model can: for the prompts, which are longer,
    they would take longer than the model.
    """
    from torch.nn.functional import cross_entropy
    from transformers import TrainingArguments

    from reground.models.hf import padded, plain

    parameters, pad = inspect.signature(plain(model).forward).parameters, tokenizer.pad_token_id
    start = model.config.decoder_start_token_id if model.config.is_encoder_decoder else None

    def collate(batch: Sequence[Pair]) -> dict[str, Any]:
        """A batch whose labels, with an uncounted one before the first, stand at the last states that are read."""
        if start is not None:
            read, labels = [prompt for prompt, _ in batch], [[_UNCOUNTED, *reply] for _, reply in batch]
            decoder_ids = padded([[start, *reply] for _, reply in batch], pad)["input_ids"]
            inputs = {**padded(read, pad), "decoder_input_ids": decoder_ids}
        else:
            first = min(len(prompt) for prompt, _ in batch)
            read = [prompt + reply for prompt, reply in batch]
            labels = [[_UNCOUNTED] * (len(prompt) - first + 1) + reply for prompt, reply in batch]
            inputs = {"input_ids": padded(read, pad)["input_ids"]}  # no token looks at the padding behind it
        more = {"logits_to_keep": max(map(len, labels)), "use_cache": False}
        inputs |= {name: value for name, value in more.items() if name in parameters}
        return {**inputs, "labels": padded(labels, _UNCOUNTED)["input_ids"]}

    def loss(outputs: Any, labels: Any, num_items_in_batch: Any) -> Any:
        logits, targets = outputs.logits[:, -labels.shape[1] : -1].float(), labels[:, 1:]
        return cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / num_items_in_batch

    how = fitting.arguments(settings, folder)
    if "train_sampling_strategy" in {field.name for field in dataclasses.fields(TrainingArguments)}:
        how["train_sampling_strategy"] = "sequential"  # an older transformers shuffles, and pads more
    return trainer_class()(
        model=model,
        args=TrainingArguments(**how),
        train_dataset=Passes(pairs, settings),
        data_collator=collate,
        compute_loss_func=loss,
        processing_class=tokenizer,
    )
