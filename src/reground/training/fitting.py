"""Fitting a model with any trainer that descends from transformers' Trainer.

What a fit adds to the trainer: it resumes from the newest whole checkpoint, records its metrics in metrics.jsonl,
reports each step, and stops at a loss that is not finite. The result is put in place whole (`result`).
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import JsonValue
from pydantic_core import from_json

from reground.core.errors import ConfigurationError, MissingExtra, TrainingFailed
from reground.core.files import append_line, locked, quietly, read_lines, replace_lines, set_aside, without_sum, writing
from reground.training.settings import FREE, Fitting

if TYPE_CHECKING:
    import transformers


METRICS = "metrics.jsonl"
_NEVER = 1 << 40  # steps, where checkpoints are made by the clock
WHOLE = "whole"
"""The file that marks a checkpoint as completely written."""


def append_metrics(folder: Path, step: int, values: Mapping[str, Any]) -> None:
    """Add a step's metrics."""
    append_line(folder / METRICS, json.dumps({"step": step, **values}, default=float))


def forget_after(folder: Path, step: int) -> None:
    """Drop the metrics of later steps, which a resumed fit makes again. A kill leaves the old file or the new one."""
    file = folder / METRICS
    if file.exists():
        set_aside(file, _row)
        replace_lines(file, (line for _, line in read_lines(file, "metrics") if _row(line)["step"] <= step))


def read_metrics(file: Path) -> list[dict[str, float]]:
    """The metrics of a fit, each row with its step, without lines that are damaged or were cut short."""
    rows = []
    for _, line in read_lines(file, "metrics"):
        with suppress(ValueError):
            rows.append(_row(line))
    return rows


def _row(line: bytes) -> dict[str, float]:
    """A step's metrics. Raises ValueError."""
    row = from_json(without_sum(line))
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise ValueError("no metrics of a step")
    return row


@dataclass(frozen=True)
class Step:
    """One optimizer step. loss: of the step's examples. seconds_left: an estimate, None in the first steps."""

    number: int
    total: int
    loss: float
    learning_rate: float
    examples_per_second: float
    seconds_left: float | None


def require_training() -> None:
    """Raise MissingExtra where the libraries for training are not installed."""
    try:
        import accelerate  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        raise MissingExtra("training", "train") from None


def arguments(fitting: Fitting, out: Path) -> dict[str, Any]:
    """Keyword arguments for transformers' TrainingArguments. The same settings and seed give the same weights."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # `on_step` tells how far a fit is, where it is to be told
    gpu = torch.cuda.is_available()
    if fitting.threads is not None:
        torch.set_num_threads(fitting.threads)
    return {
        "output_dir": str(out),
        "num_train_epochs": fitting.epochs,
        "learning_rate": fitting.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": min(fitting.warmup, 1 - 1e-9),  # below 1 it is a share, and 1 is a step
        "per_device_train_batch_size": fitting.batch,
        "gradient_accumulation_steps": fitting.accumulate,
        "seed": fitting.seed,
        "data_seed": fitting.seed,
        "bf16": fitting.bfloat16,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        "dataloader_num_workers": 2 if gpu else 0,  # texts are made into batches while the GPU computes
        "remove_unused_columns": False,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # it would hide the losses that `_recorder` stops at
        "save_strategy": "steps",
        "save_steps": fitting.checkpoint_every or _NEVER,
        "save_total_limit": 2,  # the older one stays until the newer one is marked as whole
        "disable_tqdm": True,
        "report_to": "none",
    }


@dataclass
class Parts:
    """Makes a step's rows into parts that are computed one after the other.

    collate: makes a part of rows. length: of a row, in tokens. most: the tokens of a part, padding included; a longer
    row is a part by itself. None makes one part of all rows.
    """

    collate: Callable[[Sequence[Any]], dict[str, Any]]
    length: Callable[[Any], int]
    most: int | None

    def __call__(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The parts, and all their labels: a step's loss is the mean over these, however its rows are divided."""
        import torch

        divided = [rows] if self.most is None else by_tokens(rows, self.length, self.most)
        parts = [self.collate(part) for part in divided]
        return {"parts": parts, "labels": torch.cat([part["labels"].flatten() for part in parts])}


def by_tokens(rows: Iterable[Any], length: Callable[[Any], int], most: int) -> list[list[Any]]:
    """Rows in parts of about one length and at most this many tokens, padding included; a longer row is alone."""
    parts: list[list[Any]] = []
    for row in sorted(rows, key=length, reverse=True):
        if not parts or length(parts[-1][0]) * (len(parts[-1]) + 1) > most:
            parts.append([])
        parts[-1].append(row)
    return parts


def make_room(trainer: transformers.Trainer, rows: Sequence[Any], length: Callable[[Any], int]) -> None:
    """Divide steps into parts as far as memory asks for it, and have activations computed again where one row asks it.

    trainer: collates by `Parts`. rows: the longest of one step, by length.
    """
    limit = trainer.data_collator.most
    for computed_again in (False, True):
        if computed_again:
            trainer.model.gradient_checkpointing_enable({"use_reentrant": False})
        for halved in range(len(rows).bit_length()):
            size = len(rows) >> halved
            tokens = size * length(rows[-1])
            trainer.data_collator.most = min(tokens, limit or tokens) if halved else limit
            if has_room(trainer, rows[-size:]):
                return


def has_room(trainer: transformers.Trainer, rows: Sequence[Any]) -> bool:
    """Whether memory has room for the gradients of a batch, which are computed once, and for Adam's two moments."""
    import torch
    from accelerate.utils import send_to_device

    model, has_card = trainer.model, torch.cuda.is_available()
    if has_card:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        with torch.random.fork_rng(), trainer.compute_loss_context_manager():
            batch = send_to_device(trainer.data_collator(rows), trainer.args.device)
            for part in batch.get("parts", [batch]):
                trainer.compute_loss(model, part, num_items_in_batch=torch.ones(())).backward()
    except torch.OutOfMemoryError:
        return False
    finally:
        model.zero_grad()
    moments = 8 * sum(each.numel() for each in model.parameters() if each.requires_grad)
    whole = torch.cuda.mem_get_info()[1] if has_card else math.inf
    return bool(torch.cuda.max_memory_allocated() + moments < 0.9 * whole)


def trainer_class() -> Any:
    """transformers' Trainer with a learning rate above 0 at every step; its own takes the first step with 0.

    What `Parts` made is computed part by part.
    """
    from torch.optim.lr_scheduler import LambdaLR
    from transformers import Trainer

    class Rising(Trainer):  # type: ignore[misc]
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            step = super().training_step
            return sum(step(model, part, num_items_in_batch) for part in inputs.get("parts", [inputs]))

        def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
            rising: int = self.args.get_warmup_steps(num_training_steps)
            falling = max(1, num_training_steps - rising)
            self.lr_scheduler = LambdaLR(
                optimizer or self.optimizer,
                lambda step: min((step + 1) / max(1, rising), (num_training_steps - step) / falling, 1.0),
            )
            return self.lr_scheduler

    return Rising


def by_length(lengths: Sequence[int], size: int, draw: random.Random, *, pool: int) -> list[list[int]]:
    """Every row once, in batches in random order, whose rows are of about the same length: less padding is computed.

    lengths: of the rows. pool: how many batches are drawn together before their rows are ordered by length. A batch
    that is not full is the last one.
    """
    mixed, wide = list(range(len(lengths))), size * pool
    draw.shuffle(mixed)
    pools = (mixed[start : start + wide] for start in range(0, len(mixed), wide))
    rows = [row for each in pools for row in sorted(each, key=lengths.__getitem__, reverse=True)]
    full = len(rows) - len(rows) % size
    batches = [rows[start : start + size] for start in range(0, full, size)]
    draw.shuffle(batches)
    return [*batches, rows[full:]] if rows[full:] else batches


def fit(
    trainer: transformers.Trainer,
    out: Path,
    *,
    length: Callable[[Any], int] | None = None,
    most: int | None = None,
    pause: float = 300.0,
    on_step: Callable[[Step], None] = lambda step: None,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> None:
    """Train to the end, from the newest whole checkpoint in `out` if there is one.

    trainer: made with `arguments(fitting, out)`. length, most: as in `Parts`, where rows may be divided; most is by
    default what a GPU has room for. pause: seconds between checkpoints, where no steps are set. on_step: called after
    each optimizer step. on_epoch: called after each pass over the data, the last one whole or not, with its number from
    1; a pass that ended just before a kill is reported again. Raises TrainingFailed when a loss is not finite; the
    checkpoints before it stay.
    """
    import torch
    from transformers import PrinterCallback

    out.mkdir(parents=True, exist_ok=True)
    newest = newest_checkpoint(out)
    recorder = _recorder(out, pause, on_step, on_epoch)
    for part in trainer.model.modules():
        if hasattr(part, "cast_input_dtype_enabled"):  # of an adapter; autocast casts already, and to half the size
            part.cast_input_dtype_enabled = not trainer.args.bf16
    if length is not None:
        trainer.data_collator = Parts(trainer.data_collator, length, most)
        if torch.cuda.is_available():
            make_room(trainer, sorted(trainer.train_dataset, key=length)[-trainer.args.train_batch_size :], length)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(recorder)
    try:
        with quietly():
            trainer.train(resume_from_checkpoint=None if newest is None else str(newest))
    finally:
        trainer.remove_callback(recorder)


def newest_checkpoint(out: Path) -> Path | None:
    """The newest whole checkpoint of a fit. Those that a kill left half written are removed."""
    whole: list[tuple[int, Path]] = []
    for folder in out.glob("checkpoint-*"):
        number = folder.name.rpartition("-")[2]
        if number.isdecimal() and (folder / WHOLE).exists():
            whole.append((int(number), folder))
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return max(whole)[1] if whole else None


_locks: dict[Path, IO[str]] = {}
"""The locks that this process holds, by folder."""


def begin(
    out: Path, settings: Mapping[str, JsonValue], *, fresh: bool = False, instead: str = "begin again: --fresh"
) -> None:
    """Write down what a fit is made with, or check that an interrupted one was made with the same, but for `FREE`.

    The folder is this process's until it ends. fresh: discard what is there. instead: what an error says can be done.
    Raises ConfigurationError that names the settings that differ, and where another process trains in the folder.
    """
    place = Path(os.path.realpath(out))
    lock = place.with_name(f".{place.name}.lock")  # beside the folder, which may be discarded
    if lock not in _locks:
        lock.parent.mkdir(parents=True, exist_ok=True)
        _locks[lock] = locked(lock, "training in", out)
    if fresh:
        shutil.rmtree(out, ignore_errors=True)
    file = out / "settings.json"
    if file.exists():
        recorded = json.loads(file.read_text(encoding="utf-8"))
        shaping = {*recorded, *settings} - FREE
        differ = sorted(key for key in shaping if recorded.get(key) != settings.get(key))
        if differ:
            was = ", ".join(f"{key} (was {recorded.get(key)!r})" for key in differ)
            raise ConfigurationError(f"the fit in {out} has other settings: {was}; use them, or {instead}")
    replace_lines(file, [json.dumps(dict(settings), indent=2, ensure_ascii=False).encode() + b"\n"])


@contextmanager
def result(folder: Path) -> Iterator[Path]:
    """A folder to write a result into, which takes its place when the block ends well: whole, or not at all."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with writing(folder):
        part.mkdir(parents=True)
    try:
        yield part
        with writing(folder):
            for file in filter(Path.is_file, part.rglob("*")):
                with file.open("rb") as stream, suppress(OSError):  # some file systems cannot
                    os.fsync(stream.fileno())
            old = folder.with_name(f".{folder.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            if folder.exists():
                folder.rename(old)
            part.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _recorder(out: Path, pause: float, on_step: Callable[[Step], None], on_epoch: Callable[[int], None]) -> Any:
    """The callback that records a fit; its class is made here because transformers is imported only for training."""
    from transformers import TrainerCallback

    class Recorder(TrainerCallback):  # type: ignore[misc]
        """Writes metrics.jsonl, marks whole checkpoints, reports steps, refuses losses that are not finite."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.began, self.first = time.monotonic(), state.global_step
            self.saved = self.began
            forget_after(out, state.global_step)
            # the trainer goes on behind a pass that ends at the checkpoint, and does not say that it ended
            if self.first and (float(state.epoch).is_integer() or self.first >= state.max_steps):
                self.on_epoch_end(args, state, control)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            if "loss" not in (logs or {}):
                return  # the summary at the end
            append_metrics(out, state.global_step, logs)
            loss, rate = float(logs["loss"]), float(logs.get("learning_rate", math.nan))
            if not math.isfinite(loss):
                raise TrainingFailed(
                    f"the loss is {loss} at step {state.global_step}: begin again with a lower learning rate "
                    f"(it was {args.learning_rate:.2g} at its highest); what was finished before is kept in {out}"
                )
            steps, seconds = state.global_step - self.first, time.monotonic() - self.began
            each = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
            rest = seconds / steps * (state.max_steps - state.global_step) if steps > 1 else None
            on_step(Step(state.global_step, state.max_steps, loss, rate, steps * each / max(seconds, 1e-9), rest))

        def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            on_epoch(math.ceil(round(state.epoch, 6)))

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if args.save_steps == _NEVER and time.monotonic() - self.saved >= pause:
                control.should_save = True

        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.saved = time.monotonic()
            (out / f"checkpoint-{state.global_step}" / WHOLE).touch()

    return Recorder()
