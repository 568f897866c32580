"""Small corpora and an embedder for the tests of retrieval."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reground.testing.openai_server import embed

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
    """Embeds a text as the mock server does, by its words. Keeps the texts it got."""

    def __init__(self, name: str = "openai/words", dimension: int = 256, limit: int | None = None) -> None:
        self.name = name
        self.limit = limit
        self.texts: list[str] = []
        self.closed = 0
        self._dimension = dimension

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        self.texts += texts
        return np.array([embed(text, self._dimension) for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        self.closed += 1
