"""Retrieval with judged documents: SciFact, and any folder in the BEIR or BRIGHT layout.

The last retrieval of a trajectory is scored, for a bare retriever and for a method that plans its queries. Pieces of
one document count as the document, at the rank of the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.core.programs import Sandbox
from reground.core.trajectory import GenerateStep, RetrieveStep, Trajectory
from reground.evaluation.data import Texts, data_path, fields, numbered_records, read_values, value_of
from reground.evaluation.metrics.ranking import DEFAULT_METRICS, Qrels, depth, ranking_metric, read_qrels
from reground.evaluation.task import Example, Loaded, Score, Task

_PIECE = re.compile(r"#\d+$")
_WORD = re.compile(r"\w+")
_ROW = 4
"""Minimum words in a row that count as shown in a prompt, because fewer could match by chance."""


def retrieve_steps(trajectory: Trajectory) -> list[RetrieveStep]:
    """The retrievals in order of their end."""
    return [step for step in trajectory.steps if isinstance(step, RetrieveStep)]


def retrieved_passages(steps: Iterable[RetrieveStep]) -> list[Passage]:
    """Every passage once, as it was first retrieved."""
    passages: dict[str, Passage] = {}
    for step in steps:
        for passage in step.passages:
            passages.setdefault(passage.id, passage)
    return list(passages.values())


def shown_texts(trajectory: Trajectory) -> list[str]:
    """The parts of the retrieved passages that prompts contained, and the titles of these passages.

    Token limits cut passages or leave them out; only text in a prompt counts. It is found by its words, whatever a
    method puts around them. For a trajectory without a prompt, whole passages count.
    """
    passages = retrieved_passages(retrieve_steps(trajectory))
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep)]
    if not calls:
        return [f"{passage.title}\n{passage.text}" for passage in passages]
    prompts = [_words(text) for text in {message.content for call in calls for message in call.messages}]
    rows: dict[int, set[tuple[str, ...]]] = {}
    texts = []
    for passage in passages:
        size = min(_ROW, len(_words(passage.text)))
        if size not in rows:
            rows[size] = {row for words in prompts for row in _rows(words, size)}
        stretches = _stretches(passage.text, rows[size], size)
        texts += [passage.title, *stretches] if stretches else []
    return texts


def _stretches(text: str, rows: set[tuple[str, ...]], size: int) -> list[str]:
    """The parts of the text whose words are in one of the rows."""
    words = list(_WORD.finditer(text))
    spans: list[tuple[int, int]] = []
    for start, row in enumerate(_rows(_words(text), size)):
        if row in rows:
            begin = spans.pop()[0] if spans and start < spans[-1][1] else start
            spans.append((begin, start + size))
    return [text[words[begin].start() : words[end - 1].end()] for begin, end in spans]


def _rows(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)] if size else []


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def document_id(passage_id: str, ids: Container[str] = ()) -> str:
    """The document that a passage is a piece of: an index names the pieces of document d `d#1`, `d#2`, ...

    An id that is one of `ids` is left as it is.
    """
    return passage_id if passage_id in ids else _PIECE.sub("", passage_id)


PRIMARY = "nDCG@10"


@dataclass(frozen=True)
class Retrieval(Loaded):
    """A loaded retrieval task with every query that has a relevant document.

    qrels: {query: {document: relevance}}. form: free text, because only the ranking is scored.
    hides: documents by query that are not even found, so that a ranking is whole without them, and are removed from a
    ranking before scoring (BRIGHT's excluded_ids, and of a BEIR folder the document with the query's own id).
    """

    qrels: Qrels = field(kw_only=True)
    form: AnswerForm = TEXT
    metrics: tuple[str, ...] = DEFAULT_METRICS
    secret: tuple[str, ...] | None = field(default=(), kw_only=True)  # the corpus is part of the benchmark

    def ranking(self, example_id: str, passage_ids: Iterable[str]) -> list[str]:
        """The documents of a ranking of passages, each once, without those excluded for the query."""
        relevance = self.qrels.get(example_id, {})
        left_out = self.hides.get(example_id, frozenset())
        documents = dict.fromkeys(document_id(passage, relevance) for passage in passage_ids)
        return [document for document in documents if document not in left_out]

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Score the last retrieval. A metric deeper than the requested number of passages is unscored."""
        steps = retrieve_steps(trajectory)
        if not steps:
            return dict.fromkeys(self.metrics, Score(value=None, why="nothing was retrieved"))
        last = steps[-1]
        ranking = self.ranking(example.id, (passage.id for passage in last.passages))
        scores = {}
        for name in self.metrics:
            if name.startswith("recall") and (depth(name) or 0) > last.k:
                scores[name] = Score(value=None, why=f"only {last.k} passages were asked for")
            else:
                scores[name] = Score(value=ranking_metric(name)(ranking, self.qrels[example.id]))
        return scores


_JUDGEMENT = fields(query_id=str, doc_id=str, score=int, split=(str, "test"))
_BRIGHT = fields(id=str, query=str, gold_ids=Texts, excluded_ids=(Texts | None, None), reasoning=(str | None, None))


def load_scifact(root: Path) -> Task:
    """SciFact's 300 test claims over 5,183 abstracts (BEIR's setting)."""
    queries, judgements, corpus = (
        data_path(root, "scifact", f"{file}.jsonl") for file in ("queries", "qrels", "corpus")
    )
    qrels: dict[str, dict[str, int]] = {}
    for _, judged in read_values(judgements, _JUDGEMENT):
        if judged.split == "test":
            qrels.setdefault(judged.query_id, {})[judged.doc_id] = judged.score
    return Retrieval("scifact", PRIMARY, _queries(queries, "id", qrels), corpus=corpus, qrels=qrels)


_MEASURED = ("qrels/test.tsv", "qrels/dev.tsv", "qrels.tsv", "qrels.txt")


def load_beir(folder: Path) -> Task:
    """A BEIR folder: queries.jsonl (`_id`, `text`), corpus.jsonl, and qrels/test.tsv, else dev.tsv."""
    return _beir(folder.name, folder, read_qrels(_existing(folder, *_MEASURED)))


def load_beir_train(folder: Path) -> Task:
    """A BEIR folder's qrels/train.tsv, less the queries that a file of judgements to measure with has."""
    measured = {query for name in _MEASURED if (folder / name).is_file() for query in read_qrels(folder / name)}
    judged = read_qrels(_existing(folder, "qrels/train.tsv"))
    qrels = {query: grades for query, grades in judged.items() if query not in measured}
    return _beir(f"{folder.name}_train", folder, qrels)


def _beir(name: str, folder: Path, qrels: Qrels) -> Retrieval:
    """The folder's queries with these judgements.

    A query does not find the document with its id, as in BEIR's own evaluation (`ignore_identical_ids`): ArguAna's and
    Quora's queries are documents of their corpus, where each would find itself first.
    """
    queries, corpus = (_existing(folder, f"{file}.jsonl", f"{file}.jsonl.gz") for file in ("queries", "corpus"))
    themselves = {query: frozenset({query}) for query in qrels}
    return Retrieval(name, PRIMARY, _queries(queries, "_id", qrels), corpus=corpus, qrels=qrels, hides=themselves)


def load_bright(folder: Path) -> Task:
    """A folder in BRIGHT's layout, as JSONL: examples (`id`, `query`, `gold_ids`, `excluded_ids`) and documents."""
    path = _existing(folder, "examples.jsonl", "examples.jsonl.gz")
    qrels, excluded, loaded = {}, {}, []
    for _, record in read_values(path, _BRIGHT):
        qrels[record.id] = dict.fromkeys(record.gold_ids, 1)
        excluded[record.id] = frozenset(record.excluded_ids or ()) - {"N/A"}
        loaded.append(Example(id=record.id, question=record.query, metadata={"reasoning": record.reasoning}))
    corpus = next((file for name in ("jsonl", "jsonl.gz") if (file := folder / f"documents.{name}").is_file()), None)
    return Retrieval(folder.name, PRIMARY, tuple(loaded), corpus=corpus, qrels=qrels, hides=excluded)


def _queries(path: Path, id_field: str, qrels: Qrels) -> tuple[Example, ...]:
    """The queries that have a relevant document, in the file's order."""
    judged = {query for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    examples = []
    for line, record in numbered_records(path, (id_field, "text")):
        if str(record[id_field]) in judged:
            fields = {"id": str(record[id_field]), "question": record["text"]}
            examples.append(value_of(fields, Example, path, line))
    if not examples:
        raise DataError("none of the queries has a relevant document in the qrels", path=path)
    return tuple(examples)


def _existing(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{names[0]} is missing: is it in the layout of BEIR, or of BRIGHT?", path=folder)


TASKS: dict[str, Callable[[Path], Task]] = {"scifact": load_scifact}

FOLDERS: dict[str, Callable[[Path], Task]] = {"beir": load_beir, "beir_train": load_beir_train, "bright": load_bright}
