"""The weights of a trained critic at work: texts in, scores out, one batch at a time."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from reground.core.concurrency import BatchThread, Job
from reground.core.errors import MissingExtra, ModelError
from reground.core.files import trouble
from reground.core.trajectory import Pair
from reground.critics import Kind, grouped, in_place
from reground.critics.texts import EmbedderTexts, EncoderTexts, Engine, LmTokens, Manifest, folder_of

Item: TypeAlias = tuple[Kind, Pair]

SCALE = 20.0
"""What an embedder's cosine is multiplied by, so that small differences can mean sure choices."""
_BATCH = 8  # texts that are computed together: they come sorted by length, so small batches hold little padding
_ROUND = 256  # texts of waiting calls that are taken together


_wanted: ContextVar[Callable[[], bool]] = ContextVar("wanted", default=lambda: True)


class Unwanted(Exception):
    """Nobody waits for these scores any more."""


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of texts in batches of a like length. Raises Unwanted between them when all calls were given up."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for start in range(0, len(order), _BATCH):
        if not _wanted.get()():
            raise Unwanted
        yield order[start : start + _BATCH]


class Scorer(Protocol):
    """Weights in memory. One thread at a time may ask."""

    def scores(self, items: Sequence[Item]) -> list[float]:
        """One score an item, higher is better."""
        ...


def require(engine: Engine) -> None:
    """Raise MissingExtra where what the engine needs is not installed."""
    extra, package = ("train", "transformers") if engine == "lm" else ("embed", "sentence_transformers")
    if importlib.util.find_spec(package) is None or importlib.util.find_spec("torch") is None:
        raise MissingExtra(f"a trained critic ({engine})", extra)


def open_scorer(folder: Path, manifest: Manifest) -> Scorer:
    """The scorer of a critic folder; each kind's weights are loaded when it is first asked."""
    require(manifest.engine)
    return LmScorer(folder, manifest) if manifest.engine == "lm" else EncoderScorer(folder, manifest)


class FolderScorer:
    """The weights of a critic folder. Each sub-folder's are loaded when they are first needed."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self._folder = folder
        self._models: dict[Path, Any] = {}

    def scores(self, items: Sequence[Item]) -> list[float]:
        """One score an item. Those of a sub-folder are computed together. Raises ModelError for damaged weights."""
        groups = grouped(folder_of(self._folder, self.manifest, kind) for kind, _ in items)
        return in_place(
            (places, self.compute(self._model(sub), sub, [items[place] for place in places]))
            for sub, places in groups.items()
        )

    def _model(self, folder: Path) -> Any:
        if folder not in self._models:
            try:
                with quietly():
                    self._models[folder] = self.load(folder)
            except Exception as error:  # each library has its own errors for damaged weights
                fault = f"the trained critic in {folder} could not be loaded: {trouble(error, folder)}"
                raise ModelError(fault) from error
        return self._models[folder]

    def load(self, folder: Path) -> Any:
        """The model of a sub-folder."""
        raise NotImplementedError

    def compute(self, model: Any, folder: Path, items: Sequence[Item]) -> list[float]:
        """The scores of items whose weights are in one sub-folder."""
        raise NotImplementedError


class EncoderScorer(FolderScorer):
    """Cross-encoders and embedders of sentence-transformers: logits, or scaled cosines."""

    def load(self, folder: Path) -> Any:
        """A cross-encoder or an embedder."""
        from sentence_transformers import CrossEncoder, SentenceTransformer

        family = CrossEncoder if self.manifest.engine == "encoder" else SentenceTransformer
        return exact_head(family(str(folder), local_files_only=True))

    def compute(self, model: Any, folder: Path, items: Sequence[Item]) -> list[float]:
        """The logits, or the scaled cosines."""
        score = encoder_scores if self.manifest.engine == "encoder" else embedder_scores
        return score(model, self.manifest.max_length, items)


def exact_head(model: Any) -> Any:
    """The model, whose last layer computes in its own precision, whatever the others are cast to.

    A score in 16 bits has steps of 0.4 %: scores that are close would be equal.
    """
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.out_features == 1:
            module.forward = partial(_uncast, module.forward, module.weight.dtype)
    return model


def _uncast(forward: Callable[[Any], Any], dtype: Any, hidden: Any) -> Any:
    import torch

    with torch.autocast(hidden.device.type, enabled=False):
        return forward(hidden.to(dtype))


def encoder_scores(model: Any, max_length: int, items: Sequence[Item]) -> list[float]:
    """The logits of a cross-encoder."""
    texts = EncoderTexts(model.tokenizer, max_length)
    return predicted(model, [texts(kind, pair) for kind, pair in items])


def predicted(model: Any, read: Sequence[tuple[str, str]]) -> list[float]:
    """The logits of a cross-encoder for pairs of texts. Raises ModelError for one that gives several a pair."""

    def single(logits: Any) -> Any:
        if getattr(logits, "ndim", 1) != 1:
            raise ModelError("the cross-encoder gives several numbers a pair: choose one with a single score")
        return logits

    return _each(model, read, single)


def entailed(model: Any, read: Sequence[tuple[str, str]], label: int) -> list[float]:
    """The log-odds of a label of a cross-encoder that gives a logit for each label of a pair."""
    from numpy import delete, logaddexp

    return _each(model, read, lambda logits: logits[:, label] - logaddexp.reduce(delete(logits, label, axis=1), axis=1))


def _each(model: Any, read: Sequence[tuple[str, str]], score: Callable[[Any], Any]) -> list[float]:
    """One score a pair, made of the logits; texts of a like length are computed together."""
    from torch.nn import Identity

    def scored(places: list[int]) -> list[float]:
        logits = model.predict([read[place] for place in places], activation_fn=Identity(), show_progress_bar=False)
        return [float(each) for each in score(logits)]

    return in_place((places, scored(places)) for places in batches([len(a) + len(b) for a, b in read]))


def embedder_scores(model: Any, max_length: int, items: Sequence[Item]) -> list[float]:
    """The scaled cosines of what is known and the candidates; each text is embedded once."""
    texts = EmbedderTexts(model.tokenizer, max_length)
    read = [texts(kind, pair) for kind, pair in items]
    places = {text: place for place, text in enumerate(dict.fromkeys(text for pair in read for text in pair))}
    each = list(places)
    vectors: dict[int, Any] = {}
    for some in batches([len(text) for text in each]):
        found = model.encode([each[place] for place in some], normalize_embeddings=True, show_progress_bar=False)
        vectors.update(zip(some, found, strict=True))
    return [SCALE * float(vectors[places[known]] @ vectors[places[candidate]]) for known, candidate in read]


class LmScorer(FolderScorer):
    """Decoders with a score head; adapters of one base share it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        self._bases: dict[str, Any] = {}

    def load(self, folder: Path) -> Any:
        """A model and its tokenizer."""
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        gpu = torch.cuda.is_available()
        how = {"num_labels": 1, "dtype": torch.bfloat16 if gpu else torch.float32}
        tokenizer = AutoTokenizer.from_pretrained(folder)
        adapter = folder / "adapter_config.json"
        if not adapter.is_file():
            model = AutoModelForSequenceClassification.from_pretrained(folder, **how)
        else:
            from peft import PeftModel

            base = str(json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"])
            if base in self._bases:
                model = self._bases[base]
                model.load_adapter(folder, adapter_name=folder.name)
            else:
                weights = AutoModelForSequenceClassification.from_pretrained(base, **how)
                model = self._bases[base] = PeftModel.from_pretrained(weights, folder, adapter_name=folder.name)
        model.config.pad_token_id = tokenizer.pad_token_id
        return model.to("cuda" if gpu else "cpu").eval(), tokenizer

    def compute(self, model: Any, folder: Path, items: Sequence[Item]) -> list[float]:
        """The score head's output at the last token."""
        weights, tokenizer = model
        if hasattr(weights, "set_adapter"):
            weights.set_adapter(folder.name)
        return lm_scores(weights, tokenizer, self.manifest.max_length, items)


def lm_scores(model: Any, tokenizer: Any, max_length: int, items: Sequence[Item]) -> list[float]:
    """The output of a score head; texts of a like length are computed together."""
    import torch

    tokens = LmTokens(tokenizer, max_length)
    read = [tokens(kind, pair) for kind, pair in items]
    device = next(model.parameters()).device

    def score(places: list[int]) -> list[float]:
        longest = len(read[places[-1]])
        ids = [read[at] + [tokenizer.pad_token_id] * (longest - len(read[at])) for at in places]
        mask = [[1] * len(read[at]) + [0] * (longest - len(read[at])) for at in places]
        with torch.inference_mode():
            found = model(input_ids=torch.tensor(ids, device=device), attention_mask=torch.tensor(mask, device=device))
        return list(found.logits[:, 0].float().tolist())

    return in_place((places, score(places)) for places in batches([len(each) for each in read]))


@contextmanager
def quietly() -> Iterator[None]:
    """Silence progress bars and advice while weights are loaded or saved."""
    from transformers.utils import logging as transformers_logging

    encoders = logging.getLogger("sentence_transformers")
    level, verbosity = encoders.level, transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    encoders.setLevel(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of names that the libraries will change among themselves
            yield
    finally:
        encoders.setLevel(level)
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


Scoring: TypeAlias = Job[Sequence[Item], list[float]]


class Queue:
    """Scores in a thread of its own; calls that wait at the same time are computed together."""

    def __init__(self, load: Callable[[], Scorer]) -> None:
        self.load = load
        self._thread: BatchThread[Scorer, Sequence[Item], list[float]] = BatchThread(
            load, _scores, _fits, name="critic"
        )

    async def score(self, items: Sequence[Item]) -> list[float]:
        """One score an item. Raises ModelError when the weights cannot be loaded or fail."""
        return await self._thread.ask(items)


def _fits(batch: Sequence[Scoring], job: Scoring) -> bool:
    return sum(len(each.call) for each in batch) + len(job.call) <= _ROUND


def _scores(scorer: Scorer, jobs: Sequence[Scoring]) -> list[list[float]]:
    _wanted.set(lambda: not all(job.cancelled.is_set() for job in jobs))
    try:
        scores = iter(scorer.scores([item for job in jobs for item in job.call]))
    except RuntimeError as error:
        raise ModelError(f"the trained critic: {error}") from error
    return [list(islice(scores, len(job.call))) for job in jobs]
