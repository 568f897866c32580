"""BM25 beside bm25s: time to build, peak memory, size on disk, and latency of queries.

    python -m benchmarks.bm25 --sizes 5000,300000 [--engines reground,links]

"links" is reground's index reranked by links, as `ask` searches; it builds nothing. Each engine runs in a process of
its own, one at a time, over the same file of passages: about a hundred words each, drawn by Zipf's law from a
vocabulary of half a million, whose commonest words are the English stop words. Queries are eight words of one passage.
Build time and processor time run from the file to an index on disk that can be opened; memory is the most that the
process held resident (ru_maxrss), mapped files included; latency is that of one query after another for ten passages
with their texts, on an index opened from disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reground.core.evidence import Retriever

WORDS, VOCABULARY, EXPONENT, SEED = 100, 500_000, 1.07, 20240310
QUERIES, QUERY_WORDS, K = 1000, 8, 10
ENGINES = ("reground", "links", "bm25s")
INDEXES = {"links": "reground"}
"""Engines that search the index of another one before them."""
STOP_WORDS = (
    *("the", "of", "and", "to", "in", "a", "is", "was", "for", "as", "on", "with", "by", "it", "that", "at", "be"),
    *("are", "this", "or", "an", "but", "not", "such", "they", "will", "no", "into", "their", "then", "there", "these"),
    "if",
)
"""In the order of their frequency, as far as tantivy and bm25s both leave them out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", default="5000,300000", help="numbers of passages, with commas")
    parser.add_argument("--engines", default=",".join(ENGINES), help="only these; links needs reground before it")
    parser.add_argument("--memory-gb", type=float, default=8.0, help="what one engine may allocate")
    parser.add_argument("--folder", type=Path, help="where corpora and indexes are put; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "CORPUS", "OUT"), help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, metavar=("SIZE", "CORPUS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_corpus(int(options.make[0]), Path(options.make[1]))
    elif options.one:
        engine, corpus, out = options.one
        print(json.dumps(measure(engine, Path(corpus), Path(out), options.memory_gb)))
    else:
        sizes = [int(size) for size in options.sizes.split(",")]
        rows = compare(sizes, options.engines.split(","), options.folder, options.memory_gb)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))


def compare(sizes: list[int], engines: list[str], folder: Path | None, memory_gb: float) -> list[dict[str, Any]]:
    """Run these engines at every size and print a table."""
    print(
        f"{'passages':>9}  {'engine':<9}{'build s':>9}{'CPU s':>8}{'memory MB':>11}{'disk MB':>9}"
        f"{'open ms':>9}{'p50 ms':>8}{'p99 ms':>8}"
    )
    rows = []
    with tempfile.TemporaryDirectory(dir=folder) as work:
        for size in sizes:
            corpus = Path(work) / f"{size}.jsonl"
            _child("--make", str(size), str(corpus))
            figures = {}
            for engine in engines:
                out = Path(work) / INDEXES.get(engine, engine)
                said = _child("--one", engine, str(corpus), str(out), "--memory-gb", str(memory_gb))
                figures[engine] = json.loads(said) if said else None
                rows.append({"passages": size, "engine": engine, "figures": figures[engine]})
                print(f"{size:>9}  {engine:<9}{_row(figures[engine], memory_gb)}", flush=True)
            ours, theirs = figures.get("reground"), figures.get("bm25s")
            if ours and theirs:
                print(
                    f"{'':>9}  {'ratio':<9}" + _cells({name: ours[name] / theirs[name] for name in ours}, 2), flush=True
                )
            corpus.unlink()
            for engine in engines:
                shutil.rmtree(Path(work) / engine, ignore_errors=True)
    return rows


def _row(figures: dict[str, float] | None, memory_gb: float) -> str:
    return _cells(figures, 1) if figures else f"  did not get by with {memory_gb:g} GB of memory"


def _cells(figures: dict[str, float], digits: int) -> str:
    widths = {"build_s": 9, "cpu_s": 8, "memory_mb": 11, "disk_mb": 9, "open_ms": 9, "p50_ms": 8, "p99_ms": 8}
    return "".join(f"{figures[name]:>{width}.{digits}f}" for name, width in widths.items())


def _child(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bm25", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode and "MemoryError" not in done.stderr and done.returncode > 0:
        raise SystemExit(done.stderr)
    return "" if done.returncode else done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def make_corpus(size: int, path: Path) -> None:
    """Write a file of passages, the same for the same size."""
    import numpy as np

    random = np.random.default_rng(SEED)
    words = np.array([*STOP_WORDS, *(_word(number) for number in range(VOCABULARY - len(STOP_WORDS)))])
    weights = np.arange(1, VOCABULARY + 1) ** -EXPONENT
    steps = np.cumsum(weights / weights.sum())
    with path.open("w", encoding="utf-8") as out:
        for start in range(0, size, 2000):
            ranks = np.searchsorted(steps, random.random((min(2000, size - start), WORDS)))
            for number, row in enumerate(words[np.minimum(ranks, VOCABULARY - 1)], start=start):
                title, text = " ".join(row[:4]), " ".join(row[4:])
                out.write(json.dumps({"id": str(number), "title": title, "text": text}) + "\n")


def _word(number: int) -> str:
    """A pronounceable word for a number, so that the stemmer has something to do."""
    consonants, vowels, endings = "bcdfghklmnprstvz", "aeiou", ("", "s", "ed", "ing", "ion", "ly")
    syllables = []
    number, ending = divmod(number, len(endings))
    while True:
        number, syllable = divmod(number, len(consonants) * len(vowels))
        syllables.append(consonants[syllable // len(vowels)] + vowels[syllable % len(vowels)])
        if number == 0:
            return "".join(syllables) + consonants[ending] + endings[ending]


def queries_of(corpus: Path) -> list[str]:
    """Eight words each of passages spread over the corpus."""
    import random

    choose = random.Random(SEED)
    size = int(corpus.stem)
    wanted = set(choose.sample(range(size), min(QUERIES, size)))
    found = []
    with corpus.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number in wanted:
                found.append(" ".join(choose.sample(json.loads(line)["text"].split(), QUERY_WORDS)))
    return found


def measure(engine: str, corpus: Path, out: Path, memory_gb: float) -> dict[str, float]:
    """Build and query in this process."""
    limit = int(memory_gb * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    queries = queries_of(corpus)
    build, load = {
        "reground": (_build_reground, _open_reground),
        "links": (lambda corpus, out: None, _open_links),
        "bm25s": (_build_bm25s, _open_bm25s),
    }[engine]
    started = time.perf_counter()
    build(corpus, out)
    built = time.perf_counter() - started
    cpu = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
    disk = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    started = time.perf_counter()
    search = load(out)
    opened = time.perf_counter() - started
    for query in queries[:20]:
        search(query)
    times = []
    for query in queries:
        started = time.perf_counter()
        search(query)
        times.append(1000 * (time.perf_counter() - started))
    times.sort()
    return {
        "build_s": built,
        "cpu_s": cpu,
        "memory_mb": memory,
        "disk_mb": disk,
        "open_ms": 1000 * opened,
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[int(len(times) * 0.99)],
    }


def _build_reground(corpus: Path, out: Path) -> None:
    from reground.retrieval.index import build_index

    build_index(corpus, out)


def _open_reground(out: Path) -> Callable[[str], Any]:
    from reground.retrieval.index import open_index

    return _search(open_index(out))


def _open_links(out: Path) -> Callable[[str], Any]:
    from reground.retrieval.index import open_index
    from reground.retrieval.rerank import rerank

    return _search(rerank(open_index(out), "links"))


def _search(retriever: Retriever) -> Callable[[str], Any]:
    runner = asyncio.Runner()
    return lambda query: runner.run(retriever.retrieve(query, k=K))


def _build_bm25s(corpus: Path, out: Path) -> None:
    import bm25s
    import Stemmer

    records = [json.loads(line) for line in corpus.open(encoding="utf-8")]
    texts = [f"{record['title']}\n{record['text']}" for record in records]
    tokens = bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
    retriever = bm25s.BM25()
    retriever.index(tokens, show_progress=False)
    retriever.save(str(out), corpus=records)


def _open_bm25s(out: Path) -> Callable[[str], Any]:
    import bm25s
    import Stemmer

    retriever = bm25s.BM25.load(str(out), mmap=True, load_corpus=True)
    stemmer = Stemmer.Stemmer("english")

    def search(query: str) -> Any:
        tokens = bm25s.tokenize(query, stopwords="en", stemmer=stemmer, show_progress=False)
        return retriever.retrieve(tokens, k=K, show_progress=False)

    return search


if __name__ == "__main__":
    main()
