"""BM25 on a real collection."""

import json
from pathlib import Path

import pytest

from reground.evaluation.metrics.ranking import ndcg
from reground.retrieval.chunking import document_ids
from reground.retrieval.index import build_index, open_index
from tests.data import need_data


@pytest.mark.slow
async def test_ndcg_at_10_of_scifact(tmp_path: Path) -> None:
    folder = need_data("scifact")
    assert build_index(folder, tmp_path / "index").documents == 5183
    retriever = open_index(tmp_path / "index")
    queries, qrels = ([*map(json.loads, (folder / f"{name}.jsonl").open("rb"))] for name in ("queries", "qrels"))
    judged: dict[str, dict[str, int]] = {}
    for entry in qrels:
        if entry["split"] == "test":
            judged.setdefault(entry["query_id"], {})[entry["doc_id"]] = entry["score"]
    texts = {entry["id"]: entry["text"] for entry in queries}
    scores = []
    for query, relevant in judged.items():
        found = await retriever.retrieve(texts[query], k=20)
        scores.append(ndcg(list(dict.fromkeys(document_ids(passage.id)[-1] for passage in found)), relevant, 10))
    assert len(scores) == 300
    assert sum(scores) / len(scores) >= 0.685
