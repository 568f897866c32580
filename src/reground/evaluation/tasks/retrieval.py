"""Retrieval with judged documents: SciFact, and any folder in the BEIR or BRIGHT layout.

The last retrieval of a trajectory is scored, for a bare retriever and for a method that plans its queries.
`evaluate_run` in `reground.evaluation.metrics.ranking` scores a whole run file. Pieces of one document count as the
document, at the rank of the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import ConfigurationError, DataError, MissingExtra
from reground.core.evidence import Passage
from reground.core.programs import Sandbox
from reground.core.trajectory import GenerateStep, RetrieveStep, Trajectory
from reground.evaluation.data import Record, data_path, example_of, numbered_records
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
    found: dict[str, Passage] = {}
    for step in steps:
        for passage in step.passages:
            found.setdefault(passage.id, passage)
    return list(found.values())


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
    starts = [i for i, row in enumerate(_rows(_words(text), size)) if row in rows]
    found: list[tuple[int, int]] = []
    for start in starts:
        begin, end = start, start + size
        if found and begin < found[-1][1]:
            begin = found.pop()[0]
        found.append((begin, end))
    return [text[words[begin].start() : words[end - 1].end()] for begin, end in found]


def _rows(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)] if size else []


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def document_id(passage_id: str, known: Container[str] = ()) -> str:
    """The document that a passage is a piece of: an index names the pieces of document d `d#1`, `d#2`, ...

    An id that is itself `known` is left as it is.
    """
    return passage_id if passage_id in known else _PIECE.sub("", passage_id)


PRIMARY = "nDCG@10"


@dataclass(frozen=True)
class Retrieval(Loaded):
    """A loaded retrieval task with every query that has a relevant document.

    qrels: {query: {document: relevance}}. form: free text, because only the ranking is scored.
    excluded: documents by query that are not found, and removed from a ranking before scoring (BRIGHT's excluded_ids,
    and of a BEIR folder the document with the query's own id).
    """

    qrels: Qrels = field(kw_only=True)
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    metrics: tuple[str, ...] = DEFAULT_METRICS
    form: AnswerForm = TEXT

    def solutions(self) -> Sequence[str]:
        """None: the corpus is part of the benchmark."""
        return ()

    def hidden(self, example: Example) -> frozenset[str]:
        """The documents excluded for a query are not even found, so that a ranking is whole without them."""
        return self.excluded.get(example.id, frozenset())

    def ranking(self, example_id: str, passage_ids: Iterable[str]) -> list[str]:
        """The documents of a ranking of passages, each once, without those excluded for the query."""
        relevance = self.qrels.get(example_id, {})
        left_out = self.excluded.get(example_id, frozenset())
        documents = dict.fromkeys(document_id(passage, relevance) for passage in passage_ids)
        return [document for document in documents if document not in left_out]

    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Score the last retrieval. A metric deeper than the requested number of passages is unscored."""
        steps = retrieve_steps(trajectory)
        if not steps:
            return dict.fromkeys(self.metrics, Score(value=None, why="nothing was retrieved"))
        last = steps[-1]
        ranking = self.ranking(example.id, (passage.id for passage in last.passages))
        return {name: self._metric(name, example.id, ranking, last.k) for name in self.metrics}

    def _metric(self, name: str, query: str, ranking: list[str], asked: int) -> Score:
        deep = depth(name)
        if deep is not None and deep > asked and name.startswith("recall"):
            return Score(value=None, why=f"only {asked} passages were asked for")
        return Score(value=ranking_metric(name)(ranking, self.qrels[query]))


def load_scifact(root: Path) -> Task:
    """SciFact's 300 test claims over 5,183 abstracts (BEIR's setting)."""
    queries = data_path(root, "scifact", "queries.jsonl")
    judgements = data_path(root, "scifact", "qrels.jsonl")
    qrels: dict[str, dict[str, int]] = {}
    for line, record in numbered_records(judgements, ("query_id", "doc_id", "score")):
        if record.get("split", "test") == "test":
            _judge(qrels, str(record["query_id"]), str(record["doc_id"]), record["score"], judgements, line)
    examples = _queries(queries, "id", qrels)
    return Retrieval("scifact", PRIMARY, examples, corpus=data_path(root, "scifact", "corpus.jsonl"), qrels=qrels)


_MEASURED = ("qrels/test.tsv", "qrels/dev.tsv", "qrels.tsv", "qrels.txt")


def load_beir(folder: Path) -> Task:
    """A BEIR folder: queries.jsonl (`_id`, `text`), corpus.jsonl, and qrels/test.tsv, else dev.tsv."""
    qrels = read_qrels(_existing(folder, *_MEASURED))
    return _beir(folder.name, folder, qrels)


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
    queries = _existing(folder, "queries.jsonl", "queries.jsonl.gz")
    corpus = _existing(folder, "corpus.jsonl", "corpus.jsonl.gz")
    themselves = {query: frozenset({query}) for query in qrels}
    loaded = _queries(queries, "_id", qrels)
    return Retrieval(name, PRIMARY, loaded, corpus=corpus, qrels=qrels, excluded=themselves)


def load_bright(folder: Path) -> Task:
    """A folder in BRIGHT's layout: examples (`id`, `query`, `gold_ids`, `excluded_ids`) and documents.

    Both as JSONL or, as the hub has them, parquet. `DIR/biology` takes that part of a folder that holds several.
    """
    path, part = _bright_examples(folder)
    required = ("id", "query", "gold_ids")
    records = list(_parquet(path, required) if path.suffix == ".parquet" else numbered_records(path, required))
    qrels: dict[str, dict[str, int]] = {}
    excluded: dict[str, frozenset[str]] = {}
    loaded = []
    for line, record in records:
        query = str(record["id"])
        qrels[query] = dict.fromkeys(_ids(record["gold_ids"], path, line), 1)
        excluded[query] = frozenset(_ids(record.get("excluded_ids"), path, line)) - {"N/A"}
        fields = {"id": query, "question": record["query"], "metadata": {"reasoning": record.get("reasoning")}}
        loaded.append(example_of(fields, path, line))
    corpus = next(iter(_bright_files(path.parent, "documents", part)), None)
    name = f"bright_{part}" if part else folder.name
    return Retrieval(name, PRIMARY, tuple(loaded), corpus=corpus, qrels=qrels, excluded=excluded)


def _bright_examples(folder: Path) -> tuple[Path, str]:
    """The file of examples, and the name of the part that was asked for."""
    for base, part in ((folder, ""), (folder.parent, folder.name)):
        found = _bright_files(base, "examples", part)
        if len(found) > 1:
            names = ", ".join(sorted(file.name.partition(".")[0].partition("-")[0] for file in found))
            raise ConfigurationError(f"{base} holds several parts; take one as {base}/PART: {names}")
        if found:
            return found[0], part
    raise DataError("holds no examples in BRIGHT's layout (examples.jsonl, or examples/PART-*.parquet)", path=folder)


def _bright_files(base: Path, kind: str, part: str) -> list[Path]:
    """DIR/examples.jsonl, or DIR/examples/PART*.parquet; the same for documents."""
    plain = [base / f"{kind}.{end}" for end in ("jsonl", "jsonl.gz", "parquet")]
    here = [path for path in plain if path.is_file()] if not part else []
    folder = base.parent / kind if base.name == "examples" else base / kind
    return here or sorted(
        path
        for pattern in (f"{part}*.jsonl", f"{part}*.jsonl.gz", f"{part}*.parquet")
        for path in folder.glob(pattern)
        if not part or path.name[len(part)] in "-."
    )


def _parquet(path: Path, required: Sequence[str]) -> Iterator[tuple[int, Record]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtra("reading parquet", "dense") from None
    for number, record in enumerate(parquet.read_table(path).to_pylist(), start=1):
        missing = [name for name in required if name not in record]
        if missing:
            raise DataError(f"the column {missing[0]!r} is missing", path=path)
        yield number, cast("Record", record)


def _ids(value: JsonValue | None, path: Path, line: int) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DataError("gold_ids and excluded_ids must be lists", path=path, line=line)
    return [str(each) for each in value]


def _judge(
    qrels: dict[str, dict[str, int]], query: str, document: str, grade: JsonValue, path: Path, line: int
) -> None:
    if not isinstance(grade, int):
        raise DataError(f"the relevance {grade!r} is not a whole number", path=path, line=line)
    qrels.setdefault(query, {})[document] = grade


def _queries(path: Path, id_field: str, qrels: Qrels) -> tuple[Example, ...]:
    """The queries that have a relevant document, in the file's order."""
    judged = {query for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    examples = []
    for line, record in numbered_records(path, (id_field, "text")):
        if str(record[id_field]) in judged:
            fields = {"id": str(record[id_field]), "question": record["text"]}
            examples.append(example_of(fields, path, line))
    if not examples:
        raise DataError("none of the queries has a relevant document in the qrels", path=path)
    return tuple(examples)


def _existing(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"is not a BEIR folder: {names[0]} is missing", path=folder)


TASKS: dict[str, Callable[[Path], Task]] = {"scifact": load_scifact}

FOLDERS: dict[str, Callable[[Path], Task]] = {
    "beir": load_beir,
    "beir_train": load_beir_train,
    "bright": load_bright,
}
