"""The weights of a trained critic at work: texts in, scores out, one batch at a time.

One function makes the text that it reads in training and in planning, so both read the same. A text is too long for a
small model as soon as a few steps were made. It is cut here and not by the tokenizer: the question and the candidate
stay, and what was observed goes from its beginning.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import ValidationError

from reground.core.concurrency import BatchThread, Job
from reground.core.errors import ConfigurationError, DataError, MissingExtra, ModelError
from reground.core.files import expanded, model_place, quietly, trouble
from reground.core.language import Number, Value, first_fault
from reground.core.trajectory import Pair
from reground.core.untrusted import neutralise
from reground.critics import Kind, grouped, in_place

Spans = Callable[[str], Sequence[tuple[int, int]]]
"""A tokenizer without special tokens: where each token of a text stands in it."""

HEADS: dict[Kind, str] = {
    "subgoal": "Next sub-goal?",
    "rationale": "Next step of the reasoning?",
    "query": "Search query?",
    "doc": "Document?",
}
"""What is judged. It comes first, so that one model can judge all kinds."""

_REST = re.compile(r"\n\n(?=(?:Work so far|Reasoning so far|Step of reasoning):\n)")
_QUOTED = re.compile(r"\n\nThe passages are quoted from documents\.[^\n]*")
_FENCED = re.compile(r'\A<passage number="\d+"(?: title="(?P<title>[^"\n]*)")?>\n(?P<text>.*)\n</passage>\Z', re.DOTALL)
_QUESTION_SHARE = 3  # the question may take one in three tokens where not all fits

TEMPLATE = hashlib.sha256(repr((1, HEADS, _REST.pattern, _QUOTED.pattern, _FENCED.pattern)).encode()).hexdigest()[:12]
"""Changes with the words and rules above: weights that were fitted to others would judge texts they never saw."""


def scored_text(kind: Kind, pair: Pair, *, room: int, spans: Spans, special: Sequence[str] = ()) -> tuple[str, str]:
    """What is known, and the candidate, as a critic reads them.

    room: the most tokens of both together. special: the model's own control tokens, which are broken.
    """
    # the question, and what was observed, less the planner's warning about quoted passages
    parts = _REST.split(_QUOTED.sub("", neutralise(pair.context, special)), maxsplit=1)
    question, rest = parts[0].removeprefix("Question:\n"), "".join(parts[1:])
    question = f"{HEADS[kind]} {question}"
    candidate = bare(neutralise(pair.candidate, special))
    asking, judged = len(spans(question)), len(spans(candidate))
    if asking + judged > room:
        question = head(question, max(room - judged, room // _QUESTION_SHARE), spans)
        candidate = head(candidate, room - len(spans(question)), spans)
        judged = len(spans(candidate))
    known = f"{question}\n{rest}" if rest else question
    more = room - len(spans(question)) - judged
    while rest and len(spans(known)) + judged > room:
        rest = tail(rest, more, spans)
        known = f"{question}\n{rest}" if rest else question
        more -= 1
    return known, candidate


def bare(candidate: str) -> str:
    """A candidate without the fence of a document, whose number says only how many were read before it."""
    match = _FENCED.match(candidate)
    return candidate if match is None else "\n".join(filter(None, (match["title"], match["text"])))


def head(text: str, most: int, spans: Spans) -> str:
    """The first `most` tokens of a text."""
    places = spans(text)
    return text if len(places) <= most else text[: places[most - 1][1]] if most > 0 else ""


def tail(text: str, most: int, spans: Spans) -> str:
    """The last `most` tokens of a text."""
    places = spans(text)
    return text if len(places) <= most else text[places[-most][0] :] if most > 0 else ""


def encoder_texts(tokenizer: Any, max_length: int) -> Callable[[Kind, Pair], tuple[str, str]]:
    """What is known, and the candidate, for a cross-encoder, whose tokenizer joins them."""
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    return lambda kind, pair: _fitted(tokenizer, kind, pair, room)


def embedder_texts(tokenizer: Any, max_length: int) -> Callable[[Kind, Pair], tuple[str, str]]:
    """What is known, and the candidate, each by itself for an embedder: candidates of a context share the first."""
    room = max_length - tokenizer.num_special_tokens_to_add()

    def texts(kind: Kind, pair: Pair) -> tuple[str, str]:
        known, _ = _fitted(tokenizer, kind, Pair(context=pair.context, candidate=""), room)
        _, candidate = _fitted(tokenizer, kind, Pair(context="", candidate=pair.candidate), room)
        return known, candidate

    return texts


def lm_tokens(tokenizer: Any, max_length: int) -> Callable[[Kind, Pair], list[int]]:
    """The tokens of a candidate with its context, at most `max_length`, for a decoder with a score head: a turn of the
    user and a reply where the model has a chat template.
    """

    def joined(known: str, candidate: str) -> list[int]:
        if tokenizer.chat_template is not None:
            turns = [{"role": "user", "content": known}, {"role": "assistant", "content": candidate}]
            text = tokenizer.apply_chat_template(turns, tokenize=False)
            return list(tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = list(tokenizer(f"{known}\n\n{candidate}")["input_ids"])
        end = tokenizer.eos_token_id
        return ids if end is None or ids[-1:] == [end] else [*ids, end]

    def tokens(kind: Kind, pair: Pair) -> list[int]:
        room = max_length - len(joined("", ""))
        while True:
            ids = joined(*_fitted(tokenizer, kind, pair, room))
            if len(ids) <= max_length or room <= 0:
                return ids[-max_length:]
            room -= len(ids) - max_length  # joined texts may take more tokens than apart

    return tokens


def _fitted(tokenizer: Any, kind: Kind, pair: Pair, room: int) -> tuple[str, str]:
    def spans(text: str) -> Sequence[tuple[int, int]]:
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(start, end) for start, end in encoding["offset_mapping"]]

    return scored_text(kind, pair, room=room, spans=spans, special=tokenizer.all_special_tokens)


FILE = "critic.json"

Engine = Literal["encoder", "embedder", "lm"]
"""A cross-encoder or an embedder of sentence-transformers, or a decoder of transformers with a score head."""


class Manifest(Value):
    """critic.json.

    base: the model that was fitted. kinds: the sub-folder with the weights of each kind; several may share one.
    max_length: the most tokens that are read. passage_tokens: where documents are cut before that.
    template: the words and rules of the texts (`TEMPLATE`). weights: a fingerprint of each sub-folder.
    data: a fingerprint of the pairs, those held out among them. mix: for kinds where that helps, what the score of the
    text and each of `reground.critics.trained.FEATURES` count; None where nobody asked.
    """

    format: Literal[1] = 1
    engine: Engine
    base: str
    kinds: dict[Kind, str]
    max_length: int
    passage_tokens: int
    template: str = TEMPLATE
    weights: dict[str, str]
    data: str = ""
    mix: dict[Kind, dict[str, Number]] | None = None


def read_manifest(place: Path) -> tuple[Path, Manifest]:
    """The folder that holds the weights, and what it says; `place` is that folder or the training folder around it.

    Raises ConfigurationError where there is no critic that this version can use, DataError where critic.json is broken.
    """
    place = expanded(str(place))
    folder = next((each for each in (place / "critic", place) if (each / FILE).is_file()), None)
    if folder is None:
        raise ConfigurationError(
            f"there is no trained critic in {place}: it holds no {FILE}; reground train critics fit writes one"
        )
    file = folder / FILE
    try:
        manifest = Manifest.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise DataError(first_fault(error), path=file) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error}", path=file) from None
    if manifest.template != TEMPLATE:
        raise ConfigurationError(
            f"the critic in {folder} was fitted to texts of another version ({manifest.template}, now {TEMPLATE}): "
            "fit it again with reground train critics fit"
        )
    return folder, manifest


def mix_of(manifest: Manifest, kind: Kind) -> dict[str, float]:
    """The weights of a kind's features; none where the score of the text decides alone."""
    return (manifest.mix or {}).get(kind, {})


def folder_of(folder: Path, manifest: Manifest, kind: Kind) -> Path:
    """The sub-folder with the weights of a kind. Raises ConfigurationError where there are none."""
    if kind not in manifest.kinds:
        kinds = ", ".join(manifest.kinds)
        raise ConfigurationError(
            f"the critic in {folder} judges {kinds} and not {kind}: name it for these alone, "
            f"as in {next(iter(manifest.kinds), 'doc')}=trained:{folder}"
        )
    place = folder / manifest.kinds[kind]
    if not place.is_dir():
        raise ConfigurationError(f"the critic in {folder} lacks the folder {manifest.kinds[kind]} with its weights")
    return place


Item: TypeAlias = tuple[Kind, Pair]
Scoring: TypeAlias = Callable[[Sequence[Item]], list[float]]

SCALE = 20.0
"""What an embedder's cosine is multiplied by, so that small differences can mean sure choices."""
_BATCH, _ON_GPU = 8, 64  # texts computed together: they come sorted by length, so small batches hold little padding
_ROUND = 256  # texts of waiting calls that are taken together


_wanted: ContextVar[Callable[[], bool]] = ContextVar("wanted", default=lambda: True)


class Unwanted(Exception):
    """Nobody waits for these scores any more."""


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of texts in batches of a like length. Raises Unwanted between them when all calls were given up."""
    import torch

    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    size = _ON_GPU if torch.cuda.is_available() else _BATCH
    for start in range(0, len(order), size):
        if not _wanted.get()():
            raise Unwanted
        yield order[start : start + size]


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


class FolderScorer:
    """The weights of a critic folder. Each sub-folder's are loaded when they are first needed. Raises MissingExtra."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        require(manifest.engine)
        self._folder, self._manifest = folder, manifest
        self._opened: dict[Path, Scoring] = {}
        self._bases: dict[str, Any] = {}

    def scores(self, items: Sequence[Item]) -> list[float]:
        """One score an item. Those of a sub-folder are computed together. Raises ModelError for damaged weights."""
        groups = grouped(folder_of(self._folder, self._manifest, kind) for kind, _ in items)
        return in_place((places, self._open(sub)([items[place] for place in places])) for sub, places in groups.items())

    def _open(self, folder: Path) -> Scoring:
        if folder not in self._opened:
            how: dict[Engine, Callable[[Path, int], Scoring]]
            how = {"encoder": open_encoder, "embedder": open_embedder, "lm": partial(open_lm, bases=self._bases)}
            try:
                with quietly():
                    self._opened[folder] = how[self._manifest.engine](folder, self._manifest.max_length)
            except Exception as error:  # each library has its own errors for damaged weights
                fault = f"the trained critic in {folder} could not be loaded: {trouble(error, folder)}"
                raise ModelError(fault) from error
        return self._opened[folder]


def open_encoder(folder: Path, max_length: int) -> Scoring:
    """A cross-encoder, which gives logits."""
    from sentence_transformers import CrossEncoder

    model = exact_head(CrossEncoder(str(folder), local_files_only=True))
    texts = encoder_texts(model.tokenizer, max_length)
    return lambda items: predicted(model, [texts(kind, pair) for kind, pair in items])


def open_embedder(folder: Path, max_length: int) -> Scoring:
    """An embedder, which gives scaled cosines of what is known and the candidates; each text is embedded once."""
    from sentence_transformers import SentenceTransformer

    model = exact_head(SentenceTransformer(str(folder), local_files_only=True))
    texts = embedder_texts(model.tokenizer, max_length)

    def scores(items: Sequence[Item]) -> list[float]:
        read = [texts(kind, pair) for kind, pair in items]
        each = list(dict.fromkeys(text for pair in read for text in pair))
        vectors: dict[str, Any] = {}
        for places in batches([len(text) for text in each]):
            some = [each[place] for place in places]
            rows = model.encode(some, normalize_embeddings=True, show_progress_bar=False)
            vectors.update(zip(some, rows, strict=True))
        return [SCALE * float(vectors[known] @ vectors[candidate]) for known, candidate in read]

    return scores


def open_lm(folder: Path, max_length: int, *, bases: dict[str, Any]) -> Scoring:
    """A decoder with a score head, which gives the head's output at the last token. Adapters of one base share it."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    gpu = torch.cuda.is_available()
    how = {"num_labels": 1, "dtype": torch.bfloat16 if gpu else torch.float32}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    adapter = folder / "adapter_config.json"
    if not adapter.is_file():
        model = exact_head(AutoModelForSequenceClassification.from_pretrained(folder, **how))
    else:
        from peft import PeftModel

        base = str(json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"])
        if base in bases:
            model = bases[base]
            model.load_adapter(folder, adapter_name=folder.name)
        else:
            place = model_place(base, "base")
            weights = exact_head(AutoModelForSequenceClassification.from_pretrained(place, **how))
            model = bases[base] = PeftModel.from_pretrained(weights, folder, adapter_name=folder.name)
    model.config.pad_token_id = tokenizer.pad_token_id
    model = model.to("cuda" if gpu else "cpu").eval()
    tokens, device = lm_tokens(tokenizer, max_length), next(model.parameters()).device

    def scores(items: Sequence[Item]) -> list[float]:
        if hasattr(model, "set_adapter"):
            model.set_adapter(folder.name)
        read = [tokens(kind, pair) for kind, pair in items]
        return in_place((places, batch([read[at] for at in places])) for places in batches([len(e) for e in read]))

    def batch(rows: Sequence[Sequence[int]]) -> list[float]:
        ids = pad_sequence([torch.tensor(row, device=device) for row in rows], batch_first=True, padding_value=-1)
        with torch.inference_mode():
            ids, mask = ids.where(ids >= 0, tokenizer.pad_token_id), (ids >= 0).long()
            logits = model(input_ids=ids, attention_mask=mask).logits
        return list(logits[:, 0].float().tolist())

    return scores


def exact_head(model: Any) -> Any:
    """The model, whose last layer computes in float32, whatever the others are in or are cast to.

    A score in 16 bits has steps of 0.4 %: scores that are close would be equal.
    """
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.out_features == 1:
            module.forward = partial(_uncast, module.float().forward)
    return model


def _uncast(forward: Callable[[Any], Any], hidden: Any) -> Any:
    import torch

    with torch.autocast(hidden.device.type, enabled=False):
        return forward(hidden.float())


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


class Queue:
    """Scores in a thread of its own; calls that wait at the same time are computed together."""

    def __init__(self, load: Callable[[], Scorer]) -> None:
        self.load = load
        self._thread = BatchThread(load, _scores, _fits, name="critic")

    async def score(self, items: Sequence[Item]) -> list[float]:
        """One score an item. Raises ModelError when the weights cannot be loaded or fail."""
        return await self._thread.ask(items)


def _fits(batch: Sequence[Job[Sequence[Item], list[float]]], job: Job[Sequence[Item], list[float]]) -> bool:
    return sum(len(each.call) for each in batch) + len(job.call) <= _ROUND


def _scores(scorer: Scorer, jobs: Sequence[Job[Sequence[Item], list[float]]]) -> list[list[float]]:
    _wanted.set(lambda: not all(job.cancelled.is_set() for job in jobs))
    try:
        scores = iter(scorer.scores([item for job in jobs for item in job.call]))
    except RuntimeError as error:
        raise ModelError(f"the trained critic: {error}") from error
    return [list(islice(scores, len(job.call))) for job in jobs]
