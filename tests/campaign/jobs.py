"""The commands that the campaign kills, what each works on, and what must come of it however often it is killed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reground.core.trajectory import Trajectory, read_trajectories
from reground.evaluation.results import find_runs
from reground.retrieval.index import open_index
from tests.retrieval.corpora import write

QUESTIONS = 16
_HUB = "org/repo:tiny.gguf"
BLOB = b"GGUF" + bytes(range(256)) * 40_000
_QUERIES = ("who wrote book 7", "thing 35", "the writer of many books", "nothing of that kind")


@dataclass(frozen=True)
class Job:
    """One command. {url} in it is the model server's address.

    kind: its row in the table. prepare: makes what it works on. outcome: what has to be the same as without a kill.
    meanwhile: whether what a kill leaves behind is whole. in_flight: calls of a model, at most, at one moment.
    """

    kind: str
    command: tuple[str, ...]
    outcome: Callable[[Path], object]
    prepare: Callable[[Path], None] = lambda folder: None
    meanwhile: Callable[[Path], bool] = lambda folder: True
    in_flight: int = 0

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return f"{self.kind}: {' '.join(self.command)}"


def said(body: Mapping[str, Any], key: str) -> str:
    """Something for every method to work on, the same for the same call."""
    words = str(body["messages"])
    found = re.findall(r"book (\d+)", words)
    number = int(found[-1]) if found else 0
    if "def solution" in words:
        return f"\n```python\ndef solution():\n    return {number + int(key[-1], 16) % 2}\n```"
    thought = f"It is in book {number}, part {key[-2:]}, so it must be so."
    return thought if key[-2] in "012345" else f"{thought}\nAnswer: Writer {number + int(key[-1], 16) % 2}"


def questions(folder: Path) -> None:
    """Tasks small enough to be run a thousand times, and a few documents."""
    asked = [
        {"id": f"b{i}", "question": f"Who wrote book {i}?", "golden_answers": [f"Writer {i}"], "metadata": {}}
        for i in range(QUESTIONS)
    ]
    sums = [
        {"id": f"g{i}", "question": f"How many are in book {i}?", "answer": "It is so.", "final": str(i)}
        for i in range(QUESTIONS)
    ]
    write(
        folder,
        {
            "data/bamboogle/questions.jsonl": _lines(asked),
            "data/nq_open/train.jsonl": _lines(asked),
            "data/gsm8k/test.jsonl": _lines(sums),
            "data/gsm8k/train.jsonl": _lines(sums),
        },
    )
    documents(folder, 40)


def documents(folder: Path, count: int, *, edition: int = 1) -> None:
    """Documents about books; those of another edition differ in every third, and every seventh is gone."""
    pages = {
        f"docs/{i}.md": f"# Book {i}\n\nWriter {i} wrote book {i} about thing {i * 7 % 50}"
        f"{f', in edition {edition}' if i % 3 == 0 else ''}.\n\n" + f"The writer of many books. Part {i}. " * 40
        for i in range(count)
    }
    write(folder, pages, old=edition == 1)
    if edition > 1:
        for i in range(0, count, 7):
            (folder / f"docs/{i}.md").unlink()


def _lines(records: Sequence[object]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _story(trajectory: Trajectory) -> object:
    """A trajectory without its times and without what says that a step was replayed."""
    told = trajectory.model_dump(mode="json", exclude={"seconds", "usage", "id"})
    return json.loads(json.dumps(told), object_hook=_timeless)


def _timeless(found: dict[str, Any]) -> dict[str, Any]:
    ours = {"replayed", "elapsed", "seconds", "started", "ended", "usage", "url", "retriever"}
    return {name: value for name, value in found.items() if name not in ours}


def evaluated(folder: Path) -> object:
    """Answers, scores and every step of all runs."""
    found = {}
    for run in find_runs([folder / "out"]):
        records = {
            key: record.model_dump(mode="json", include={"scores", "answer", "failure", "stopped", "scoring", "cut"})
            for key, record in run.records().items()
        }
        summary = run.summary()
        assert summary is not None
        assert summary.finished
        stories = {trajectory.id: _story(trajectory) for trajectory in run.solved()}
        found[run.path.name] = (records, stories, {name: m.mean for name, m in summary.metrics.items()})
    return found


def asked(folder: Path) -> object:
    """The answer and every step of the one question."""
    (path,) = (folder / "home/runs").glob("ask-*/trajectory.jsonl")
    (trajectory,) = read_trajectories(path)
    traced = list(read_trajectories(folder / "trace.jsonl"))
    assert all(_story(each) == _story(trajectory) for each in traced[-1:])
    return _story(trajectory)


def indexed(folder: Path) -> object:
    """What the index holds and how it ranks."""
    index = open_index(folder / "idx", verify=True)
    manifest = index.manifest
    ranking = {query: [page.id for page in asyncio.run(index.retrieve(query, k=10))] for query in _QUERIES}
    generations = [path.name for path in (folder / "idx").glob("data-*")]
    assert generations == [manifest.generation], "a generation stays that nobody reads"
    return manifest.documents, manifest.passages, manifest.fingerprint, ranking


def still_searched(folder: Path) -> bool:
    """Whether the index is the old one or the new one, and whole."""
    return open_index(folder / "idx", verify=True).manifest.documents in (120, 120 - len(range(0, 120, 7)))


def pulled(folder: Path) -> object:
    """The one file of the models' folder."""
    files = [path for path in (folder / "home/models").rglob("*") if path.is_file() and path.suffix != ".lock"]
    return [(path.name, path.read_bytes() == BLOB) for path in files]


def grown(folder: Path) -> object:
    """The trees as they are on disk."""
    return {path.name: path.read_bytes() for path in (folder / "out/trees").iterdir()}


def first_edition(folder: Path) -> None:
    """An index of the first edition, and documents of the second."""
    from reground.retrieval.index import build_index

    documents(folder, 120)
    build_index(folder / "docs", folder / "idx")
    documents(folder, 120, edition=2)


def many_documents(folder: Path) -> None:
    """Enough documents that indexing them takes a moment."""
    documents(folder, 300)


_SERVER = ("--model", "openai/mock", "--base-url", "{url}")


def _eval(method: str, *more: str, task: str = "bamboogle", at_once: int = 4, calls: int = 1) -> Job:
    command = ("eval", "--task", task, "--data", "data", *_SERVER, "-m", method, "-j", str(at_once), "--out", "out")
    return Job("eval", (*command, *more), evaluated, questions, in_flight=at_once * calls)


def _compare(methods: str, *more: str, calls: int = 1) -> Job:
    command = ("compare", "--task", "bamboogle", "--data", "data", *_SERVER, "-m", methods, "-j", "4", "--out", "out")
    return Job("compare", (*command, *more), evaluated, questions, in_flight=4 * calls)


def _ask(method: str, *more: str, calls: int = 1) -> Job:
    command = ("ask", "Who wrote book 7?", "-m", method, *_SERVER, "--trace", "trace.jsonl", *more)
    return Job("ask", command, asked, questions, in_flight=calls)


def _index(*more: str, update: bool) -> Job:
    command = ("index", "docs", "--out", "idx", *more)
    if update:
        return Job("index, updating", command, indexed, first_edition, still_searched)
    return Job("index", command, indexed, many_documents)


def _trees(*more: str) -> Job:
    command = ("train", "critics", "collect", "--task", "nq_open_train", "--data", "data", *_SERVER, "--limit", "8")
    search = ("--simulations", "6", "--set", "retrieval=false", "--set", "candidates=2", "--out", "out")
    return Job("train critics collect", (*command, *search, *more), grown, questions, in_flight=4 * 4 * 2)


JOBS = (
    _eval("cot", "--repeats", "3"),
    _ask("self_refine"),
    _index(update=False),
    _eval("self_consistency", calls=8),
    Job("models pull", ("models", "pull", _HUB), pulled, in_flight=8),
    _eval("rat", "-c", "docs", calls=4),
    _trees(),
    _index(update=True),
    _compare("direct,cot", "-b", "none,1k"),
    _eval("cot", "--repeats", "3", "--cache", "cache.db"),
    _ask("rat", "-c", "docs", calls=8),
    _eval("rar", "-c", "docs", calls=8),
    _eval("cot", task="gsm8k"),
    _compare("cot,rag,self_refine", "-b", "2k", "-c", "docs", "--cache", "cache.db", calls=4),
    _eval("ircot", "-c", "docs", "--cache", "cache.db", calls=2),
    _ask("cr_planner", "-c", "docs", "--seed", "3", calls=8),
    _trees("--set", "max_steps=6"),
    _eval("self_refine", "--repeats", "2", calls=2),
)
