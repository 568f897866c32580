"""Snapshots of what a run found on the web, and a retriever that searches one when the web has moved on.

A snapshot is a JSONL file: a header, then a search or a page a line, with the date and a hash of each text. A text of
another hash is refused. The same searches find the same passages, byte for byte; other queries search the texts of the
snapshot by BM25.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from reground.core.errors import DataError
from reground.core.evidence import Passage, SearchResults, Skipped
from reground.core.files import read_lines, replace_lines, with_sum, without_sum
from reground.core.language import Text, Value
from reground.core.trajectory import RetrieveStep, Trajectory
from reground.text.excerpts import bm25, terms
from reground.web.retriever import PRIVATE

VERSION = 1
_PAGES = " pages"  # what the name of a retriever ends in where pages were opened (`methods/rewrite_retrieve_read.py`)
UNKEPT = "its engine does not allow to pass its snippet on"


class Header(Value):
    """The first line. made: the date of the snapshot, as ISO 8601."""

    kind: Literal["snapshot"] = "snapshot"
    version: int = VERSION
    made: Text


class Search(Value):
    """A search, or a page that was opened, whose query is then its passage's id.

    hashes: SHA-256 of each passage's text as it was found, also where the text itself was not kept.
    """

    kind: Literal["search", "page"]
    retriever: Text
    query: Text
    k: int
    passages: tuple[Passage, ...]
    hashes: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()


def searches(trajectories: Iterable[Trajectory], *, all_texts: bool = False) -> Iterator[Search]:
    """Every search of the web in the trajectories, each once.

    Snippets of engines that do not allow to pass them on are left out, unless all texts are wanted. Texts of fetched
    pages are always kept.
    """
    seen: set[tuple[str, str, int]] = set()
    for trajectory in trajectories:
        for step in trajectory.steps:
            if not isinstance(step, RetrieveStep) or not step.retriever.startswith("web:"):
                continue
            key = (step.retriever, step.query, step.k)
            if key in seen:
                continue
            seen.add(key)
            may_store = all_texts or PRIVATE not in step.retriever
            name = step.retriever.removesuffix(_PAGES)
            yield Search(
                kind="search" if name == step.retriever else "page",
                retriever=name,
                query=step.query,
                k=step.k,
                passages=tuple(
                    p if may_store or p.fetched else p.model_copy(update={"text": ""}) for p in step.passages
                ),
                hashes=tuple(hashlib.sha256(p.text.encode()).hexdigest() for p in step.passages),
                skipped=step.skipped,
            )


def write(path: Path, searches: Iterable[Search], *, made: str) -> int:
    """Write a snapshot, and return the number of its searches. Raises StorageError."""
    lines = [each.model_dump_json() for each in searches]
    replace_lines(path, map(with_sum, [Header(made=made).model_dump_json(), *lines]))
    return len(lines)


class FrozenRetriever:
    """Searches a snapshot. Its name is that of the retriever whose searches it holds.

    Raises DataError for a file that is no snapshot.
    """

    def __init__(self, path: Path) -> None:
        self._searches: dict[tuple[str, int], Search] = {}
        self._pages: dict[str, Passage] = {}
        self._texts: dict[str, Passage] = {}
        self._terms: list[list[str]] | None = None
        names = set()
        for each in _read(path):
            names.add(each.retriever)
            self._texts.update({p.id: p for p in each.passages if p.text})
            if each.kind == "page":
                self._pages.update(zip([each.query], each.passages, strict=False))
            else:
                self._searches[each.query, each.k] = each
        self.name = " + ".join(sorted(names)) or "web:nothing"

    async def retrieve(self, query: str, /, *, k: int) -> SearchResults:
        """The results of the same search; for another query the closest texts of the snapshot."""
        same = self._searches.get((query, k))
        if same is None:
            return SearchResults(self._closest(query, k))
        unkept = (Skipped(skipped=p.id, why=UNKEPT) for p in same.passages if not p.text)
        return SearchResults((p for p in same.passages if p.text), (*same.skipped, *unkept))

    async def page(self, passage_id: str, /) -> Passage | None:
        """The page that was opened for this passage."""
        return self._pages.get(passage_id)

    def _closest(self, query: str, k: int) -> list[Passage]:
        texts = list(self._texts.values())
        if self._terms is None:  # only other queries than those of the snapshot need them
            self._terms = [terms(f"{p.title} {p.text}") for p in texts]
        ranked = sorted(zip(bm25(terms(query), self._terms), texts, strict=True), key=lambda pair: -pair[0])
        return [p.model_copy(update={"score": score}) for score, p in ranked[:k] if score > 0]


def _read(path: Path) -> Iterator[Search]:
    if not path.is_file():
        raise DataError("no such snapshot; `reground freeze RUN --out FILE` makes one", path=path)
    number = 0
    for number, line in read_lines(path, "snapshot"):
        try:
            text = without_sum(line)
            if number == 1:
                header = Header.model_validate_json(text)
                if header.version != VERSION:
                    raise ValueError(f"version {header.version} of snapshots is not known here")
            else:
                search = Search.model_validate_json(text)
                for passage, was in zip(search.passages, search.hashes, strict=True):
                    if passage.text and hashlib.sha256(passage.text.encode()).hexdigest() != was:
                        raise ValueError("a text of the snapshot is not the one that was found: its hash is another")
                yield search
        except ValidationError:
            raise DataError("not a line of a snapshot", path=path, line=number) from None
        except ValueError as error:
            raise DataError(str(error), path=path, line=number) from None
    if number == 0:
        raise DataError("not a snapshot: nothing is in it", path=path)
