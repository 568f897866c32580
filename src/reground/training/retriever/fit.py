"""Contrastive fine-tuning of a sentence-transformers model.

The loss is the cross-entropy of a question's own passage among all passages of the batch and the row's hard negatives
(multiple negatives ranking; Henderson et al. 2017, section 4.4), over cosines times `scale`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.places import expanded
from reground.training.fitting import Step, arguments, fit, result
from reground.training.retriever.data import Contrast
from reground.training.retriever.settings import MINILM, RetrieverFitting
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
    try:
        return SentenceTransformer(base_folder(name))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(f"cannot load the embedder {name}: {reason}") from None


def fit_retriever(
    rows: Sequence[Contrast],
    fitting: RetrieverFitting,
    checkpoints: Path,
    out: Path,
    *,
    on_step: Callable[[Step], None] = lambda step: None,
) -> None:
    """Fine-tune the base on the rows, and write it to the folder `out`, whole or not at all.

    checkpoints: where an interrupted fit resumes from.
    """
    model = load_embedder(fitting.base)
    window = model.max_seq_length
    model.max_seq_length = fitting.max_length if window is None else min(fitting.max_length, window)
    fit(_trainer(model, rows, fitting, checkpoints), checkpoints, on_step=on_step)
    model.max_seq_length = window
    with result(out) as folder:
        model.save_pretrained(str(folder), create_model_card=False)


def _trainer(model: Any, rows: Sequence[Contrast], fitting: RetrieverFitting, out: Path) -> Any:
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer import losses

    model.model_card_data.widget = ["no card is written"]  # otherwise examples for one are computed
    if fitting.mini_batch:
        loss = losses.CachedMultipleNegativesRankingLoss(model, scale=fitting.scale, mini_batch_size=fitting.mini_batch)
    else:
        loss = losses.MultipleNegativesRankingLoss(model, scale=fitting.scale)
    # A question's passages never meet as negatives of each other: no text is twice in a batch.
    settings = SentenceTransformerTrainingArguments(**arguments(fitting, out), batch_sampler="no_duplicates")
    return SentenceTransformerTrainer(model=model, args=settings, train_dataset=_dataset(rows, fitting), loss=loss)


def _dataset(rows: Sequence[Contrast], fitting: RetrieverFitting) -> Any:
    from datasets import Dataset

    count = min(fitting.hard, min(len(row.negatives) for row in rows))
    columns = {"anchor": [row.anchor for row in rows], "positive": [row.positive for row in rows]}
    for number in range(count):
        columns[f"negative_{number + 1}"] = [row.negatives[number] for row in rows]
    return Dataset.from_dict(columns)
