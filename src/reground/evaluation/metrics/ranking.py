"""nDCG@k, recall@k and MRR over rankings, as trec_eval defines them; and judgements of relevance.

Relevance is a whole number; above 0 is relevant. Gains are the relevance itself (not 2^rel - 1), discounted
by log2(rank + 1), over the best ranking of all judged documents (Järvelin and Kekäläinen 2002). What is not
judged is not relevant.

pytrec_eval is what the tests compare with. It is not used here: an id with half a surrogate pair or a cutoff of 0 ends
its whole process, it needs scipy and numpy (158 MB), and ir-measures on top of it orders ties otherwise for MRR@k.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log2
from pathlib import Path

from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.data import numbered_lines

Qrels = Mapping[str, Mapping[str, int]]
Metric = Callable[[Sequence[str], Mapping[str, int]], float]

DEFAULT_METRICS = ("nDCG@10", "recall@10", "recall@100", "MRR")


def ndcg(ranking: Sequence[str], relevance: Mapping[str, int], k: int) -> float:
    """Normalised discounted cumulative gain of the first `k`; 0 without a relevant document."""

    def discounted(gains: Iterable[int]) -> float:
        return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))

    best = discounted(sorted((each for each in relevance.values() if each > 0), reverse=True)[:k])
    return discounted(max(0, relevance.get(document, 0)) for document in ranking[:k]) / best if best else 0.0


def recall(ranking: Sequence[str], relevance: Mapping[str, int], k: int) -> float:
    """The share of the relevant documents among the first `k`; 0 without a relevant document."""
    relevant = {document for document, grade in relevance.items() if grade > 0}
    return len(relevant & set(ranking[:k])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[str], relevance: Mapping[str, int], k: int | None = None) -> float:
    """One over the rank of the first relevant document, 0 without one. Its mean over queries is MRR."""
    ranks = (rank for rank, document in enumerate(ranking[:k], start=1) if relevance.get(document, 0) > 0)
    return 1 / next(ranks, math.inf)


def ranking_metric(name: str) -> Metric:
    """The metric behind "nDCG@10", "recall@100", "MRR@10" or "MRR". Raises ConfigurationError."""
    if name == "MRR":
        return reciprocal_rank
    parts = re.fullmatch(r"\A(\w++)@([1-9]\d{0,8})", name)
    functions = {"nDCG": ndcg, "recall": recall, "MRR": reciprocal_rank}
    if parts is None or parts[1] not in functions:
        raise ConfigurationError(f"no ranking metric is called {name!r}; there are nDCG@k, recall@k, MRR@k, MRR")
    function, k = functions[parts[1]], int(parts[2])
    return lambda ranking, relevance: function(ranking, relevance, k)


def depth(name: str) -> int | None:
    """The number of documents that a metric looks at; None for all."""
    _, at, k = name.partition("@")
    return int(k) if at else None


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read TREC qrels (`query 0 document relevance`) or BEIR's TSV (`query-id corpus-id score`, with a header).

    Raises DataError naming the line.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, columns in _rows(path):
        query, document, text = columns[0], columns[-2], columns[-1]
        if len(columns) == 3 and number == 1 and text == "score":
            continue
        if not text.removeprefix("-").isdecimal() or len(text) > 16:
            raise DataError(f"the relevance {text!r} is not a whole number", path=path, line=number)
        qrels.setdefault(query, {})[document] = int(text)
    return qrels


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The columns of every line that is not blank. All lines have as many, three or four."""
    width = 0
    for number, line in numbered_lines(path):
        columns = line.split()
        if len(columns) not in ((width,) if width else (3, 4)):
            raise DataError(f"expected {width or '3 or 4'} columns, found {len(columns)}", path=path, line=number)
        width = len(columns)
        yield number, columns
