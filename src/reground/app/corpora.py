"""From what a user names as a corpus to a retriever: an index is opened, anything else is indexed once and kept."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reground.core.errors import DataError, IndexBusy
from reground.core.places import indexes_dir

if TYPE_CHECKING:
    from reground.core.evidence import Retriever
    from reground.retrieval.settings import IndexSettings, Progress

_SOON, _LATE = 0.2, 5.0
"""Seconds between two looks at an index that another process builds: at first, and at most, for every look reads the corpus's folder."""


async def corpus_retriever(
    corpus: str | Path | Retriever,
    on_index: Callable[[Progress], None] | None = None,
    settings: IndexSettings | None = None,
) -> Retriever:
    """A retriever over `corpus`: one of your own as it is, an index opened, documents indexed into the cache.

    The cached index is updated on every call, which reads only what has changed. While another process does that, this one waits.
    """
    if not isinstance(corpus, str | Path):
        return corpus
    pause = _SOON
    while True:
        try:
            return await asyncio.to_thread(_open, Path(corpus), on_index, settings)
        except IndexBusy:
            _say_waiting(on_index)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)


def _say_waiting(on_index: Callable[[Progress], None] | None) -> None:
    from reground.retrieval.settings import Progress

    if on_index is not None:
        on_index(Progress(waiting=True))


def _open(path: Path, on_index: Callable[[Progress], None] | None, settings: IndexSettings | None) -> Retriever:
    from reground.retrieval.index import build_index, open_index

    path = path.expanduser()
    if not path.exists():
        raise DataError("there is no such corpus: give a folder of documents, a JSONL file or an index", path=path)
    if (path / "manifest.json").is_file():
        return open_index(path)
    settings = settings if settings is not None else default_settings()
    out = cached_index_path(path, settings)
    build_index(path, out, settings, progress=on_index)
    return open_index(out)


def default_settings() -> IndexSettings:
    """Chunks short enough that a small model can read several of them."""
    from reground.retrieval.settings import IndexSettings

    return replace(IndexSettings(), chunk_tokens=400, overlap=50)


def cached_index_path(corpus: Path, settings: IndexSettings) -> Path:
    """Where the index of a corpus is kept: one for each path and each choice of settings."""
    key = hashlib.sha256(f"{corpus.resolve()}\n{settings!r}".encode()).hexdigest()[:12]
    return indexes_dir() / f"{corpus.resolve().stem or 'corpus'}-{key}"
