"""What a rewriting of a question could find at best, without a model: the room that a query rewriter has.

    python -m benchmarks.rewriting TRAIN FRESH --corpus PASSAGES [--passages 3] [--seed 0]

TRAIN, FRESH: JSONL files of questions with `question`, `golden_answers` and, where known, `metadata.type`. PASSAGES: a
JSONL file of passages with `title` and `text`. Rewritings are made of the question's own words: its names together or
apart, beside the question or alone, and random parts of it. Shown is the share of the questions whose answer is in the
first passages:

- by the question itself, also with more passages;
- by each form, and by the form that was best for each type of question on TRAIN;
- by the best of all forms, and by the best of 32 random parts: luck counts here, so no rewriter gets there;
- by weights of words (left out, once, twice) that were learnt on TRAIN by policy gradients from some 500,000 rewards,
  from a word's letters, its place, its rarity, and the word itself where it is frequent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reground.app.corpora import corpus_retriever
from reground.core.evidence import Passage, Retriever
from reground.evaluation.metrics.text import hit
from reground.evaluation.statistics import bootstrap_interval
from reground.methods.rewrite_retrieve_read.pages import interleaved
from reground.text.names import names_in

Row = Mapping[str, Any]
Forms = Mapping[str, Sequence[str]]

_WORD = re.compile(r"[\w'’.&-]+")
_PARTS = 32
_ROUNDS, _QUESTIONS, _SAMPLES = 240, 256, 8
_ASKING = "which what who whom whose where when how in are is was were do does did both the"
"""Words that begin a question and no name."""
_FREQUENT = 6
"""Questions that a word must stand in to have a weight of its own."""


class Search:
    """Whether the first passages of some queries, taken in turn, hold an answer."""

    def __init__(self, retriever: Retriever, passages: int) -> None:
        self.retriever, self.passages = retriever, passages
        self._found: dict[tuple[str, int], Sequence[Passage]] = {}

    async def hit(self, row: Row, queries: Iterable[str], passages: int | None = None) -> float:
        """1 or 0; no query finds nothing."""
        return float(await self.rank(row, queries, passages) > 0)

    async def rank(self, row: Row, queries: Iterable[str], passages: int | None = None) -> float:
        """1 / the place of the first passage that holds an answer, or 0."""
        wanted = passages or self.passages
        found = [await self._of(query, wanted) for query in queries if query.strip()]
        for place, passage in enumerate(interleaved(found)[:wanted], start=1):
            if hit(row["golden_answers"], [passage.title, passage.text]):
                return 1 / place
        return 0.0

    async def _of(self, query: str, passages: int) -> Sequence[Passage]:
        key = (query, passages)
        if key not in self._found:
            self._found[key] = await self.retriever.retrieve(query, k=passages)
        return self._found[key]


def forms(question: str) -> Forms:
    """The rewritings of a question that are tried."""
    names = names_in([f"{question} {_ASKING}"]) or [question]
    return {
        "the question": [question],
        "names together": [" ".join(names)],
        "two names apart": names[:2],
        "three names apart": names[:3],
        "the question, then two names": [question, *names[:2]],
        "two names, then the question": [*names[:2], question],
        "the question and its names again": [" ".join([question, *names])],
    }


def kind(row: Row) -> str:
    """The type of a question, where it is known."""
    return str((row.get("metadata") or {}).get("type", ""))


class Weights:
    """A policy that gives each word of a question a weight of 0, 1 or 2, as independent choices."""

    def __init__(self, rows: Sequence[Row], corpus: Counter[str], size: int, seed: int) -> None:
        self._rarity: Callable[[str], float] = lambda word: math.log(size / (1 + corpus[word.lower()]))
        counts = Counter(word.lower() for row in rows for word in _WORD.findall(row["question"]))
        self._own = {word: 11 + at for at, word in enumerate(w for w, count in counts.items() if count >= _FREQUENT)}
        self._draw = np.random.default_rng(seed)
        self.weights = np.zeros((11 + len(self._own), 3))
        self.weights[0] = [-0.3, 0.5, -0.3]
        self._squares = np.full_like(self.weights, 1e-8)

    def features(self, words: Sequence[str]) -> np.ndarray:
        """[words, features]: what is known of each word."""
        told = np.zeros((len(words), len(self.weights)))
        for at, word in enumerate(words):
            rare = self._rarity(word)
            told[at, :5] = 1, word[0].isupper(), word[0].isupper() and at > 0, any(map(str.isdigit, word)), rare / 5
            told[at, 5 + min(4, max(0, int(rare // 2)))] = 1
            told[at, 10] = at / len(words)
            if word.lower() in self._own:
                told[at, self._own[word.lower()]] = 1
        return told

    def best(self, question: str) -> str:
        """The query of the likeliest weights."""
        words = _WORD.findall(question)
        return _weighted(words, (self.features(words) @ self.weights).argmax(1)) or question

    async def learn(self, rows: Sequence[Row], search: Search) -> None:
        """Policy gradients with the mean of a question's other samples as the baseline, and AdaGrad."""
        for _ in range(_ROUNDS):
            gradient = np.zeros_like(self.weights)
            for at in self._draw.permutation(len(rows))[:_QUESTIONS]:
                gradient += await self._gradient(rows[at], search)
            self._squares += gradient**2
            self.weights += 0.5 * gradient / np.sqrt(self._squares)

    async def _gradient(self, row: Row, search: Search) -> np.ndarray:
        words = _WORD.findall(row["question"])
        told = self.features(words)
        chance = np.exp(told @ self.weights)
        chance /= chance.sum(1, keepdims=True)
        drawn = [np.array([self._draw.choice(3, p=each) for each in chance]) for _ in range(_SAMPLES)]
        ranks = [await search.rank(row, [_weighted(words, each)]) for each in drawn]
        scores = np.array([2 * (rank > 0) + rank for rank in ranks])
        above = scores - (scores.sum() - scores) / (_SAMPLES - 1)
        moves = [worth * (np.eye(3)[each] - chance) for worth, each in zip(above, drawn, strict=True)]
        gradient: np.ndarray = told.T @ np.sum(moves, axis=0)
        return gradient


def _weighted(words: Sequence[str], weights: Iterable[int]) -> str:
    return " ".join(" ".join([word] * weight) for word, weight in zip(words, weights, strict=True) if weight)


async def measured(order: argparse.Namespace) -> str:
    """The table."""
    search = Search(await corpus_retriever(order.corpus), order.passages)
    train, fresh = (_questions(path) for path in (order.train, order.fresh))
    policy = Weights(train, *_document_frequency(order.corpus), order.seed)
    await policy.learn(train, search)
    best = await _best_forms(train, search)
    draw = random.Random(order.seed)
    columns = [await _columns(rows, search, best, policy, draw) for rows in (train, fresh)]
    lines = [f"| what is searched | {len(train)} to learn from | {len(fresh)} fresh | 95 % |", "|---|---:|---:|---|"]
    for name, found in columns[1].items():
        interval = bootstrap_interval(found)
        seen = sum(columns[0][name]) / len(train)
        lines.append(f"| {name} | {seen:.3f} | {interval.mean:.3f} | {interval.low:.3f} to {interval.high:.3f} |")
    return "\n".join(lines)


async def _columns(
    rows: Sequence[Row], search: Search, best: Mapping[str, str], policy: Weights, draw: random.Random
) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        own = row["question"]
        found = {name: await search.hit(row, queries) for name, queries in forms(own).items()}
        words = _WORD.findall(own)
        parts = [" ".join(word for word in words if draw.random() < 0.6) for _ in range(_PARTS)]
        found |= {
            "the question, ten passages": await search.hit(row, [own], 10),
            "the best form of its type": found[best.get(kind(row), "the question")],
            "the best of all forms": max(found.values()),
            "a random part": sum([await search.hit(row, [part]) for part in parts]) / _PARTS,
            f"the best of {_PARTS} random parts": max([await search.hit(row, [part]) for part in [own, *parts]]),
            "learnt weights of its words": await search.hit(row, [policy.best(own)]),
        }
        for name, value in found.items():
            columns[name].append(value)
    return columns


async def _best_forms(rows: Sequence[Row], search: Search) -> dict[str, str]:
    """The form that finds most for each type; the question itself where none finds more."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for name, queries in forms(row["question"]).items():
            counts[kind(row)][name] += int(await search.hit(row, queries))
    return {which: max(found, key=lambda name: found[name]) for which, found in counts.items()}


def _questions(path: Path) -> list[Row]:
    """Those whose answer a passage could hold."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if hit(row["golden_answers"], ["any"]) is not None]


def _document_frequency(corpus: Path) -> tuple[Counter[str], int]:
    passages = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    texts = (f"{each['title']} {each['text']}" for each in passages)
    return Counter(word for text in texts for word in {word.lower() for word in _WORD.findall(text)}), len(passages)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("fresh", type=Path)
    parser.add_argument("--corpus", type=Path, required=True, help="a JSONL file of passages")
    parser.add_argument("--passages", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    print(asyncio.run(measured(parser.parse_args(arguments))))


if __name__ == "__main__":
    main()
