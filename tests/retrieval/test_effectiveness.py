"""BM25 on real collections."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from reground.retrieval.index import build_index, open_index
from tests.data import need_data


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ndcg(ranking: list[str], relevant: dict[str, int], k: int = 10) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002), as trec_eval reckons it."""
    gain = sum(relevant.get(id_, 0) / math.log2(place + 2) for place, id_ in enumerate(ranking[:k]))
    ideal = sum(score / math.log2(place + 2) for place, score in enumerate(sorted(relevant.values(), reverse=True)[:k]))
    return gain / ideal


@pytest.mark.slow
async def test_scifact(tmp_path: Path) -> None:
    folder = need_data("scifact")
    report = build_index(folder, tmp_path / "index")
    assert report.documents == 5183
    retriever = open_index(tmp_path / "index")
    judged: dict[str, dict[str, int]] = {}
    for entry in records(folder / "qrels.jsonl"):
        if entry["split"] == "test":
            judged.setdefault(entry["query_id"], {})[entry["doc_id"]] = entry["score"]
    texts = {entry["id"]: entry["text"] for entry in records(folder / "queries.jsonl")}
    assert len(judged) == 300
    scores = []
    for query, relevant in judged.items():
        found = await retriever.retrieve(texts[query], k=20)
        documents = list(dict.fromkeys(passage.id.split("#")[0] for passage in found))
        scores.append(ndcg(documents, relevant))
    assert sum(scores) / len(scores) >= 0.685


@pytest.mark.slow
async def test_hotpotqa(tmp_path: Path) -> None:
    folder = need_data("hotpotqa")
    build_index(folder / "corpus.jsonl.gz", tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    questions = [entry for entry in records(folder / "questions.jsonl") if entry["metadata"].get("gold_ids")]
    found = 0.0
    for question in questions[::4]:
        gold = set(question["metadata"]["gold_ids"])
        passages = await retriever.retrieve(question["question"], k=5)
        found += len(gold & {passage.id for passage in passages}) / len(gold)
    assert found / len(questions[::4]) >= 0.72
