"""Contrastive fine-tuning of a sentence-transformers model.

The loss is the cross-entropy of a question's own passage among all passages of the batch and the row's hard negatives
(multiple negatives ranking; Henderson et al. 2017, section 4.4), over cosines times `scale`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.places import expanded
from reground.core.weights import trouble
from reground.training.fitting import Step, arguments, fit, result
from reground.training.retriever.data import Contrast
from reground.training.retriever.settings import MINILM, RetrieverFitting
from reground.training.retriever.validate import Validation, validate
from reground.training.weights import minilm_folder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def base_folder(name: str) -> str:
    """Where a base's weights are: a folder, that of an installed MiniLM, or the hub name as it is.

    Raises ConfigurationError for a folder that does not exist.
    """
    if name.startswith((".", "/", "~")) or expanded(name).is_dir():
        if not expanded(name).is_dir():
            raise ConfigurationError(f"no embedder to begin from: there is no folder {name}")
        return str(expanded(name))
    folder = minilm_folder() if name == MINILM else None
    return name if folder is None else str(folder)


def load_embedder(name: str) -> SentenceTransformer:
    """A base. Raises ConfigurationError, MissingExtra."""
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging
    except ImportError:
        raise MissingExtra("training a retriever", "train") from None
    logging.disable_progress_bar()
    base = base_folder(name)
    try:
        return SentenceTransformer(base)
    except Exception as error:  # each library has its own errors for damaged weights
        raise ConfigurationError(f"cannot load the embedder {name}: {trouble(error, base)}") from None


def fit_retriever(
    rows: Sequence[Contrast],
    fitting: RetrieverFitting,
    checkpoints: Path,
    out: Path,
    *,
    held_out: Sequence[Contrast] = (),
    on_step: Callable[[Step], None] = lambda step: None,
    on_validate: Callable[[], None] = lambda: None,
) -> tuple[Validation | None, Validation | None]:
    """Fine-tune the base on the rows, and write it to the folder `out`, whole or not at all.

    checkpoints: where an interrupted fit resumes from. held_out: rows that the base and the result are measured with;
    both measures are returned. on_validate: called before each.
    """
    model = load_embedder(fitting.base)
    window = model.max_seq_length
    model.max_seq_length = fitting.max_length if window is None else min(fitting.max_length, window)
    on_validate()
    before = validate(model, held_out)
    fit(_trainer(model, rows, fitting, checkpoints), checkpoints, on_step=on_step)
    on_validate()
    after = validate(model, held_out)
    model.max_seq_length = window
    with result(out) as folder:
        model.save_pretrained(str(folder), create_model_card=False)
    return before, after


def measured_cost(rows: Sequence[Contrast], fitting: RetrieverFitting) -> tuple[float, int]:
    """The seconds that a fit takes, by two steps that are made and thrown away, and its bytes.

    The bytes are those of weights, gradients and the optimizer's moments.
    """
    model = load_embedder(fitting.base)
    model.max_seq_length = min(fitting.max_length, model.max_seq_length or fitting.max_length)
    told: list[Step] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(model, rows, fitting, Path(folder), max_steps=2, save_strategy="no")
        fit(trainer, Path(folder), on_step=told.append)
    sizes = sum(each.numel() for each in model.parameters())
    return fitting.epochs * len(rows) / told[-1].examples_per_second, 16 * sizes


def _trainer(model: Any, rows: Sequence[Contrast], fitting: RetrieverFitting, out: Path, **more: Any) -> Any:
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer import losses

    model.model_card_data.widget = ["no card is written"]  # otherwise examples for one are computed
    if fitting.mini_batch:
        loss = losses.CachedMultipleNegativesRankingLoss(model, scale=fitting.scale, mini_batch_size=fitting.mini_batch)
    else:
        loss = losses.MultipleNegativesRankingLoss(model, scale=fitting.scale)
    # A question's passages never meet as negatives of each other: no text is twice in a batch.
    given = {**arguments(fitting, out), **more}
    settings = SentenceTransformerTrainingArguments(**given, batch_sampler="no_duplicates")
    return SentenceTransformerTrainer(model=model, args=settings, train_dataset=_dataset(rows, fitting), loss=loss)


def _dataset(rows: Sequence[Contrast], fitting: RetrieverFitting) -> Any:
    from datasets import Dataset

    count = min(fitting.hard, min(len(row.negatives) for row in rows))
    columns = {"anchor": [row.anchor for row in rows], "positive": [row.positive for row in rows]}
    for number in range(count):
        columns[f"negative_{number + 1}"] = [row.negatives[number] for row in rows]
    return Dataset.from_dict(columns)
