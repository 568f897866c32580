"""What the presets of `--retrieval` find and cost, beside BM25, on five corpora with judged passages.

Of each corpus as many questions as asked for are drawn by a fixed seed, and as many passages: all gold ones, then those
that the data set sets beside the questions, then others. Every search runs in a process of its own, one question after
the other, so that times and memory are its own. A run goes on where it stopped. Recall and nDCG count documents.

    python -m benchmarks.retrieval [--questions 150] [--passages 600] [--work FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reground.evaluation.data import data_path, data_root, numbered_records
from reground.evaluation.metrics.ranking import ndcg, recall
from reground.evaluation.statistics import compare
from reground.retrieval.chunking import document_ids
from reground.retrieval.index import build_index, open_index
from reground.retrieval.rerank import rerank
from reground.retrieval.settings import PRESETS, Preset

CORPORA = ("scifact", "hotpotqa", "2wikimultihopqa", "musique", "popqa")
SYSTEMS: dict[str, Preset] = {
    "bm25": PRESETS["bm25"],
    "bm25, links": Preset(PRESETS["bm25"].settings, "links"),
    "hybrid": PRESETS["hybrid"],
    "hybrid, links": PRESETS["best"],
}
METRICS = ("recall@3", "recall@5", "nDCG@10")
DEPTH, SEED = 50, 0


class Judged(NamedTuple):
    """A question and its gold documents."""

    id: str
    text: str
    gold: dict[str, int]
    beside: list[str]


def records(root: Path, name: str, file: str) -> Iterator[dict[str, Any]]:
    """The lines of a file of a data set."""
    yield from (record for _, record in numbered_records(data_path(root, name, file)))


def judged(name: str, root: Path) -> Iterator[Judged]:
    """The questions of a set whose gold passages are known in full."""
    if name == "scifact":
        gold: dict[str, dict[str, int]] = {}
        for each in records(root, name, "qrels.jsonl"):
            if each["split"] == "test" and each["score"] > 0:
                gold.setdefault(str(each["query_id"]), {})[str(each["doc_id"])] = int(each["score"])
        for each in records(root, name, "queries.jsonl"):
            if str(each["id"]) in gold:
                yield Judged(str(each["id"]), str(each["text"]), gold[str(each["id"])], [])
        return
    file = "questions_with_passages.jsonl" if name == "popqa" else "questions.jsonl"
    for each in records(root, name, file):
        facts = {**each, **each.get("metadata", {})}
        trained_on = name == "hotpotqa" and facts.get("split") != "dev"  # the weights of links have seen some of these
        if trained_on or facts.get("gold_titles_from") == "derived_incomplete":
            continue
        ids = facts["gold_ids"][: 1 if name == "popqa" else None]  # PopQA's second passage only repeats the answer
        yield Judged(str(each["id"]), str(each["question"]), dict.fromkeys(ids, 1), facts.get("context_ids") or [])


def drawn(name: str, root: Path, questions: int, passages: int, out: Path) -> list[Judged]:
    """Some questions; the passages that are searched are written to a file."""
    draw = random.Random(SEED)
    found = list(judged(name, root))
    chosen = draw.sample(found, min(questions, len(found)))
    corpus = {str(each["id"]): each for each in records(root, name, "corpus.jsonl")}
    gold = list(dict.fromkeys(id_ for each in chosen for id_ in each.gold))
    beside = list(dict.fromkeys(str(id_) for each in chosen for id_ in each.beside))
    rest = list(corpus)
    draw.shuffle(beside)
    draw.shuffle(rest)
    kept = list(dict.fromkeys(gold + beside + rest))[: max(passages, len(gold))]
    lines = (json.dumps({key: corpus[id_].get(key, "") for key in ("id", "title", "text")}) for id_ in sorted(kept))
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return chosen


async def searched(questions: Sequence[Judged], index: Path, system: Preset) -> dict[str, Any]:
    """What a search finds, and its times in milliseconds; the first query, which loads the model, stands apart."""
    search = open_index(index)
    retriever = search if system.rerank is None else rerank(search, system.rerank)
    began = time.perf_counter()
    await retriever.retrieve("Which river is longer?", k=DEPTH)
    first, times, busy = time.perf_counter() - began, [], []
    scores: dict[str, dict[str, float]] = {metric: {} for metric in METRICS}
    for question in questions:
        began, used = time.perf_counter(), time.process_time()
        found = await retriever.retrieve(question.text, k=DEPTH)
        times.append(1000 * (time.perf_counter() - began))
        busy.append(1000 * (time.process_time() - used))
        ranking = list(dict.fromkeys(document_ids(passage.id)[-1] for passage in found))
        scores["recall@3"][question.id] = recall(ranking, question.gold, 3)
        scores["recall@5"][question.id] = recall(ranking, question.gold, 5)
        scores["nDCG@10"][question.id] = ndcg(ranking, question.gold, 10)
    await retriever.aclose()  # type: ignore[attr-defined]
    return {"scores": scores, "times": times, "busy": busy, "first": first}


def one(given: argparse.Namespace) -> None:
    """Measure one search on one corpus, and print it as JSON."""
    work: Path = given.work
    system, corpus = SYSTEMS[given.system], work / f"{given.corpus}.jsonl"
    questions = drawn(given.corpus, data_root(None), given.questions, given.passages, corpus)
    index = work / f"{given.corpus}-{system.settings.kind}"
    began, used = time.perf_counter(), time.process_time()
    report = build_index(corpus, index, system.settings)
    built = {"seconds": time.perf_counter() - began, "busy": time.process_time() - used, "read": report.read}
    said = asyncio.run(searched(questions, index, system))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"built": built, "memory": memory, "passages": report.passages, **said}))


def quantile(times: Iterable[float], share: float) -> float:
    """The time that a share of the queries stays below."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def lines(corpus: str, found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A Markdown line for each search."""
    base = found["bm25"]["scores"]
    for name, each in found.items():
        shown = []
        for metric in METRICS:
            scores = each["scores"][metric]
            text = f"{sum(scores.values()) / len(scores):.3f}"
            if name != "bm25":
                told = compare(scores, base[metric])
                text += f" ({told.difference.mean:+.3f} [{told.difference.low:+.3f}, {told.difference.high:+.3f}])"
            shown.append(text)
        built = each["built"]
        build = f"{built['seconds']:.1f} ({built['busy']:.1f})" if built["read"] else "as above"
        p50, p99 = quantile(each["times"], 0.5), quantile(each["times"], 0.99)
        cost = f"{build} | {p50:.0f} | {p99:.0f} | {quantile(each['busy'], 0.5):.0f} | {each['memory']:.0f}"
        yield f"| {corpus} | {name} | {' | '.join(shown)} | {cost} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--passages", type=int, default=600)
    parser.add_argument("--corpora", default=",".join(CORPORA))
    parser.add_argument("--work", type=Path, help="keeps indexes and results")
    parser.add_argument("--corpus", help=argparse.SUPPRESS)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.system:
        one(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        given.work = given.work or Path(folder)
        given.work.mkdir(parents=True, exist_ok=True)
        print(f"| corpus | search | {' | '.join(METRICS)} | build s (CPU) | p50 ms | p99 ms | CPU ms | MiB |")
        print("|---|---|" + "---|" * (len(METRICS) + 5))
        for corpus in given.corpora.split(","):
            found = {name: measured(given, corpus, name) for name in SYSTEMS}
            print("\n".join(lines(corpus, found)), flush=True)


def measured(given: argparse.Namespace, corpus: str, name: str) -> dict[str, Any]:
    """What a process of its own measures, kept in a file."""
    kept: Path = given.work / f"{corpus}-{name.replace(', ', '-')}-{given.questions}-{given.passages}.json"
    if not kept.is_file():
        command = [sys.executable, "-m", "benchmarks.retrieval", "--corpus", corpus, "--system", name]
        command += ["--questions", str(given.questions), "--passages", str(given.passages), "--work", str(given.work)]
        kept.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout, encoding="utf-8")
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
