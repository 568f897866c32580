"""Dense retrieval: passages nearest to the query by the cosine of their vectors, kept by LanceDB.

Up to a hundred thousand passages the search is exact. Above that an index of hierarchical navigable small worlds over
scalar-quantised vectors (Malkov and Yashunin 2018) finds candidates, and exact cosines rank them.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from reground.core.errors import IndexRefused, MissingExtra, ModelError, RetrievalError
from reground.core.evidence import Passage
from reground.retrieval.chunking import passage_text
from reground.retrieval.embedders import Embedder
from reground.retrieval.storage import refusing

_TABLE = "passages"
_COLUMNS = ["id", "title", "text", "url"]
_MOST_PIECES = 20_000  # of one document
EXACT_UP_TO = 100_000
_ROWS_AT_ONCE = 1024  # embedded and written together
_REMOVED_AT_ONCE = 1000
_SPARE = 16  # passages looked at beyond those asked for, for the sake of ties
_REFINE = 10  # candidates an approximate search ranks exactly, for each passage asked for


def _database(folder: Path) -> Any:
    try:
        import lancedb
    except ImportError:
        raise MissingExtra("a dense index", "dense") from None
    return lancedb.connect(str(folder))


_DAMAGED = "the vectors of the index are damaged"


class DenseWriter:
    """Embeds passages and keeps their vectors. Nothing counts before `finish`."""

    def __init__(self, folder: Path, embedder: Embedder, *, prefix: str = "", exact_up_to: int = EXACT_UP_TO) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._database = _database(folder)
        self._table = self._database.open_table(_TABLE) if (folder / f"{_TABLE}.lance").is_dir() else None
        self.embedder = embedder
        self._prefix = prefix
        self._exact_up_to = exact_up_to
        self._rows: list[tuple[int, Passage]] = []
        self._removed: list[int] = []
        self._runner = asyncio.Runner()

    def add(self, key: int, passages: Sequence[Passage]) -> None:
        """Add a document's passages."""
        self._rows += [(key, passage) for passage in passages]
        if len(self._rows) >= _ROWS_AT_ONCE:
            self.save()

    def remove(self, key: int) -> None:
        """Remove a document's passages, which an earlier build has written."""
        self._removed.append(key)
        if len(self._removed) >= _REMOVED_AT_ONCE:
            self.save()

    def save(self) -> None:
        """Write out what came so far."""
        if self._removed and self._table is not None:
            self._table.delete(f"key IN ({', '.join(map(str, self._removed))})")
        self._removed = []
        rows, self._rows = self._rows, []
        if not rows:
            return
        import pyarrow as pa

        texts = [f"{self._prefix}{passage_text(passage)}".strip() for _, passage in rows]
        vectors = self._runner.run(self.embedder.embed(texts))
        if self.dimension not in (None, vectors.shape[1]):
            raise ModelError(f"{self.embedder.name} gave vectors of different lengths")
        vector = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1])
        columns = {name: pa.array([getattr(passage, name) for _, passage in rows], pa.string()) for name in _COLUMNS}
        batch = pa.table({"key": pa.array([key for key, _ in rows], pa.int64()), **columns, "vector": vector})
        if self._table is None:
            self._table = self._database.create_table(_TABLE, batch)
        else:
            self._table.add(batch)

    def finish(self, tick: Callable[[], None] = lambda: None) -> int:
        """Write everything, merge small files, and build an index if there are too many vectors for an exact search.

        Returns how many passages there are now. `tick` is called between these.
        """
        self.save()
        tick()
        if self._table is None:
            return 0
        passages: int = self._table.count_rows()
        if passages > self._exact_up_to and not self._table.list_indices():
            from lancedb.index import HnswSq

            self._table.create_index("vector", config=HnswSq(distance_type="dot"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other readers, which a generation in the making cannot have
            self._table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
        return passages

    @property
    def dimension(self) -> int | None:
        """The length of the vectors, once there are any."""
        return None if self._table is None else int(self._table.schema.field("vector").type.list_size)

    def close(self) -> None:
        """Close connections."""
        self._runner.run(self.embedder.aclose())
        self._runner.close()


class DenseIndex:
    """A LanceDB folder, opened for searching."""

    def __init__(self, folder: Path, embedder: Embedder, *, prefix: str = "") -> None:
        self._embedder = embedder
        self._prefix = prefix
        with refusing(_DAMAGED):
            self._table = _database(folder).open_table(_TABLE)
            self.dimension: int = self._table.schema.field("vector").type.list_size
            self._is_exact = not self._table.list_indices()

    async def search(self, query: str, k: int, among: Collection[int] | None = None) -> list[Passage]:
        """The `k` passages with the highest cosine, which is their score. Raises RetrievalError.

        among: the keys of the documents that are searched; all by default.
        """
        if k < 1 or not query.strip():
            return []
        try:
            vectors = await self._embedder.embed([self._prefix + query], query=True)
        except ModelError as error:
            raise RetrievalError(f"the query could not be embedded: {error}") from error
        if vectors.shape[1] != self.dimension:
            raise IndexRefused(
                f"{self._embedder.name} gives vectors of {vectors.shape[1]} numbers, the index holds vectors of "
                f"{self.dimension}: it was made with another embedder"
            )
        return await asyncio.to_thread(self._nearest, vectors[0], k, among)

    def pieces(self, key: int) -> list[Passage]:
        """A document's passages by its key, in no order. Blocks."""
        with refusing(_DAMAGED):
            rows = self._table.search().where(f"key = {key}").select(_COLUMNS).limit(_MOST_PIECES).to_list()
        return [Passage(**{name: row[name] for name in _COLUMNS}) for row in rows]

    async def aclose(self) -> None:
        """Close the embedder's connections."""
        await self._embedder.aclose()

    def _nearest(self, vector: Any, k: int, among: Collection[int] | None) -> list[Passage]:
        with refusing(_DAMAGED):
            search = self._table.search(vector, vector_column_name="vector").distance_type("dot")
            if among is not None:
                search = search.where(f"key IN ({', '.join(map(str, among))})", prefilter=True)
            if self._is_exact:
                search = search.limit(k + _SPARE)
            else:
                search = search.limit(k).ef(max(100, _REFINE * k)).refine_factor(_REFINE)
            rows = search.select([*_COLUMNS, "_distance"]).to_list()
        rows.sort(key=lambda row: (row["_distance"], row["id"]))  # ties go by id, however the index came to be
        return [Passage(**{name: row[name] for name in _COLUMNS}, score=1 - row["_distance"]) for row in rows[:k]]
