"""Small corpora and an embedder for the tests of retrieval."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OLD_NS = 1_000_000_000_000_000_000  # long ago, so that a time stamp can be trusted


def write(folder: Path, files: dict[str, str | bytes], *, old: bool = True) -> Path:
    """Write files into a folder, by default as if long ago."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if old:
            os.utime(path, ns=(OLD_NS, OLD_NS))
    return folder


def jsonl(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


class WordEmbedder:
    """Embeds a text as the sum of one fixed random direction for each of its words. Keeps the texts it got."""

    def __init__(self, name: str = "openai/words", dimension: int = 32, limit: int | None = None) -> None:
        self.name = name
        self.limit = limit
        self.texts: list[str] = []
        self.closed = 0
        self._dimension = dimension

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        self.texts += texts
        rows = np.array([self._row(text) for text in texts], dtype=np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    async def aclose(self) -> None:
        self.closed += 1

    def _row(self, text: str) -> Any:
        words = re.findall(r"\w+", text.lower()) or ["nothing"]
        return np.sum([self._direction(word) for word in words], axis=0)

    def _direction(self, word: str) -> Any:
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
        return np.random.default_rng(seed).standard_normal(self._dimension)
