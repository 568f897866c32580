"""Rows to train a retriever on: a question, a passage that answers it, and passages that BM25 mistakes for it.

Passages of BM25's first ranks that are not gold are hard negatives (Karpukhin et al. 2020, section 3.2). One that holds
the answer may be right although nobody marked it, so it is left out. Without questions, a sentence of a passage stands
in for one (the inverse cloze task; Lee et al. 2019, section 4).
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, SerializerFunctionWrapHandler, model_serializer, model_validator

from reground.core.errors import DataError
from reground.core.evidence import Pages, Passage
from reground.core.language import Value
from reground.core.storable import Text
from reground.evaluation.metrics.text import hit
from reground.retrieval.build import passages_of
from reground.retrieval.documents import Document
from reground.retrieval.pages import document_ids
from reground.retrieval.passage_text import passage_text
from reground.training.retriever.settings import Mining
from reground.training.rows import Row

_NEGATIVE = "negative_"
_DEEP = 100  # ranks in which the piece of a gold document that answers is looked for, or any passage that does


class Question(Value):
    """A question and the ids of the documents that answer it. task: where it is from."""

    id: Text
    text: Text
    gold: tuple[Text, ...]
    answers: tuple[Text, ...] = ()
    task: Text = ""


class Contrast(Row):
    """A question, a passage that answers it and passages that do not, as sentence-transformers and TRL read them.

    In a file the negatives are `negative_1`, `negative_2`, ... The ids say which passages these are.
    """

    anchor: Text
    positive: Text
    negatives: tuple[Text, ...] = ()
    positive_id: Text = ""
    negative_ids: tuple[Text, ...] = ()
    task: Text = ""

    @model_serializer(mode="wrap")
    def _numbered(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        said: dict[str, Any] = handler(self)
        negatives = said.pop("negatives")
        return said | {f"{_NEGATIVE}{number}": text for number, text in enumerate(negatives, start=1)}

    @model_validator(mode="wrap")
    @classmethod
    def _gathered(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(given, Mapping):
            numbered = [key for key in given if key.startswith(_NEGATIVE) and key.removeprefix(_NEGATIVE).isdecimal()]
            numbered.sort(key=lambda key: int(key.removeprefix(_NEGATIVE)))
            rest = {key: value for key, value in given.items() if key not in numbered}
            given = {"negatives": tuple(given[key] for key in numbered), **rest}
        return handler(given)


@dataclass
class Mined:
    """The rows of some questions. left_out: how many questions or passages gave none, by reason."""

    rows: list[Contrast] = field(default_factory=list)
    held_out: list[Contrast] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """How the searched index cuts documents, so that a positive is a passage as the index has it."""

    size: int
    overlap: int


async def mine(
    questions: Sequence[Question],
    bm25: Pages,
    pieces: Pieces,
    mining: Mining,
    *,
    given: Mapping[str, Passage] | None = None,
    on_question: Callable[[], None] = lambda: None,
) -> Mined:
    """One row for each question and each of its gold documents.

    given: the positive of a question, by its id, where it is not to be taken from the index. A question without gold
    documents gets the first passage of BM25 that holds its answer. The same questions, index and mining give the same
    rows. Raises DataError where no question gives a row.
    """
    mined = Mined()
    others: list[Passage] = []
    for question in questions:
        found = await bm25.retrieve(question.text, k=max(mining.depth, _DEEP))
        own = (given or {}).get(question.id)
        positives = [own] if own is not None else await _positives(question, found, bm25, pieces)
        mined.left_out["gold passages that the corpus lacks"] += max(1, len(question.gold)) - len(positives)
        wrong = [passage for passage in found[: mining.depth] if not _may_answer(passage, question)]
        draw = random.Random(f"{mining.seed}/{question.id}")
        draw.shuffle(wrong)
        spare = partial(_spare, others, question)
        rows = mined.held_out if is_held_out(question.text, mining) else mined.rows
        for number, positive in enumerate(positives):
            negatives = _dealt(wrong, spare, number, mining.negatives, draw)
            if len(negatives) == mining.negatives:
                rows.append(_row(question, positive, negatives))
            else:
                mined.left_out["rows without enough negatives"] += 1
        others += positives
        on_question()
    if not mined.rows:
        raise DataError("no question has a gold passage in the corpus: there is nothing to train on")
    return mined


def is_held_out(question: str, mining: Mining) -> bool:
    """Whether a question is kept from training. The wording and the seed decide, whatever other questions there are."""
    wording = " ".join(question.casefold().split())
    digest = hashlib.sha256(f"{mining.seed}\0{wording}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < mining.held_out * 2**64


def is_gold(passage: Passage, gold: Collection[str]) -> bool:
    """Whether a passage is one of the gold documents, or a piece of one."""
    return any(id_ in gold for id_ in document_ids(passage.id))


def _may_answer(passage: Passage, question: Question) -> bool:
    return is_gold(passage, question.gold) or bool(hit(question.answers, [passage_text(passage)]))


async def _positives(question: Question, found: Sequence[Passage], bm25: Pages, pieces: Pieces) -> list[Passage]:
    if question.gold:
        asked = [await _positive(gold, question, found, bm25, pieces) for gold in question.gold]
        return [passage for passage in asked if passage is not None]
    return [passage for passage in found if hit(question.answers, [passage.text])][:1]


async def _positive(
    gold: str, question: Question, found: Sequence[Passage], bm25: Pages, pieces: Pieces
) -> Passage | None:
    """The piece of a gold document that answers best: it holds the answer if one does, and BM25 ranks it first."""
    page = await bm25.page(gold)
    if page is None:
        return None
    document = Document(gold, page.title, page.text, page.url)
    cut = [piece.passage for piece in passages_of(document, pieces.size, pieces.overlap)]
    place = {passage.id: rank for rank, passage in enumerate(found)}
    return min(
        cut,
        key=lambda passage: (
            not hit(question.answers, [passage.text]),
            place.get(passage.id, len(place)),
        ),
        default=None,
    )


def _spare(others: Sequence[Passage], question: Question) -> list[Passage]:
    return [passage for passage in others if not _may_answer(passage, question)]


def _dealt(
    wrong: Sequence[Passage], spare: Callable[[], list[Passage]], number: int, count: int, draw: random.Random
) -> list[Passage]:
    """The negatives of a question's row of this number: other rows get others while there are enough.

    What BM25's first ranks lack comes from the passages of other questions, which take long to go through.
    """
    start = number * count if (number + 1) * count <= len(wrong) else 0
    dealt = list(wrong[start : start + count])
    if (lacking := count - len(dealt)) and lacking <= len(rest := spare()):
        dealt += draw.sample(rest, lacking)
    return dealt


def _row(question: Question, positive: Passage, negatives: Sequence[Passage]) -> Contrast:
    return Contrast(
        question=question.id,
        anchor=question.text,
        positive=passage_text(positive),
        negatives=tuple(passage_text(passage) for passage in negatives),
        positive_id=positive.id,
        negative_ids=tuple(passage.id for passage in negatives),
        task=question.task,
    )
