"""Where questions to train a retriever on come from: training splits, a file of one's own, or the documents alone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from reground.core.errors import DataError
from reground.core.evidence import Pages, Passage
from reground.evaluation.data import Line, read_values
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks.qa import evidence_of
from reground.evaluation.tasks.retrieval import Retrieval
from reground.retrieval.build import passages_of
from reground.retrieval.documents import Document
from reground.retrieval.encodings import Unreadable
from reground.retrieval.readers import read_documents
from reground.retrieval.survey import find_files
from reground.text.sentences import sentences
from reground.training.retriever.data import Pieces, Question

_SHORTEST = 4
"""Words that a sentence must have to stand in for a question."""
_KEPT = 0.1
"""The share of sentences that stay in their passage, so that shared words count too (Lee et al. 2019, section 4)."""
_TITLES = 20  # passages among which a title is looked for


class _OwnLine(Line):
    """A line of a user's file."""

    question: str
    passage: str
    id: str = ""
    golden_answers: tuple[str, ...] = ()


class Cloze(NamedTuple):
    """A sentence taken out of a passage as the question, and what is left of the passage or all of it."""

    question: Question
    passage: Passage


def questions_of(task: Task) -> list[Question]:
    """A task's questions that have a gold document or an answer by which one can be found."""
    made = (_question(task, example) for example in task.examples())
    return [question for question in made if question.gold or question.answers]


def _question(task: Task, example: Example) -> Question:
    gold: tuple[str, ...] | str
    if isinstance(task, Retrieval):
        gold = tuple(document for document, grade in task.qrels.get(example.id, {}).items() if grade > 0)
    else:
        gold = evidence_of(task, example)
    known = () if isinstance(gold, str) else gold
    return Question(id=example.id, text=example.question, gold=known, answers=example.golden_answers, task=task.name)


async def own_questions(path: Path, retriever: Pages) -> list[Question]:
    """The questions of a JSONL file: `question`, `passage` (the id or the title of its document), and as one likes
    `id` and `golden_answers`.

    Raises DataError, with the line, for a document that is not in the corpus.
    """
    questions = []
    for line, own in read_values(path, _OwnLine):
        document = await _document(own.passage, retriever)
        if document is None:
            raise DataError(f"the corpus has no document with the id or title {own.passage!r}", path=path, line=line)
        id_ = own.id or f"line-{line}"
        questions.append(Question(id=id_, text=own.question, gold=(document,), answers=own.golden_answers))
    if not questions:
        raise DataError("there are no questions here", path=path)
    return questions


async def _document(named: str, retriever: Pages) -> str | None:
    page = await retriever.page(named)
    if page is not None:
        return page.id
    wanted = " ".join(named.casefold().split())
    for passage in await retriever.retrieve(named, k=_TITLES):
        if " ".join(passage.title.casefold().split()) == wanted:
            page = await retriever.page(passage.id)
            return page.id if page is not None else None
    return None


def documents_of(corpus: Path) -> Iterator[Document]:
    """The documents of a folder or file that can be read."""
    for file in find_files(corpus):
        try:
            yield from read_documents(file)
        except (OSError, Unreadable):
            continue  # indexing has named it already


def clozes(documents: Iterable[Document], pieces: Pieces, *, count: int, seed: int) -> list[Cloze]:
    """A sentence of each of `count` passages, drawn by the seed; passages of one sentence give none."""
    draw = random.Random(seed)
    kept: list[Cloze] = []
    seen = 0
    for document in documents:
        for piece in passages_of(document, pieces.size, pieces.overlap):
            made = _cloze(piece.passage, document.id, seed)
            if made is None:
                continue
            seen += 1  # reservoir sampling: memory holds no more than is kept
            if len(kept) < count:
                kept.append(made)
            elif (place := draw.randrange(seen)) < count:
                kept[place] = made
    return sorted(kept, key=lambda cloze: cloze.question.id)


def _cloze(passage: Passage, document: str, seed: int) -> Cloze | None:
    parts = sentences(passage.text)
    long_enough = [place for place, sentence in enumerate(parts) if len(sentence.split()) >= _SHORTEST]
    if len(parts) < 2 or not long_enough:
        return None
    draw = random.Random(f"{seed}/{passage.id}")
    place = draw.choice(long_enough)
    question = Question(id=f"cloze-{passage.id}", text=parts[place].strip(), gold=(document,))
    if draw.random() < _KEPT:
        return Cloze(question, passage)
    rest = "".join(parts[:place] + parts[place + 1 :]).strip()
    return Cloze(question, passage.model_copy(update={"text": rest}))
