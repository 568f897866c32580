"""An index of a user's documents: building it, bringing it up to date, opening it, and searching it.

`build.py` goes through the documents, `storage.py` is the folder on disk, `bm25.py` and `dense.py` search it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from reground.core.errors import ConfigurationError, DataError, IndexRefused
from reground.core.evidence import Passage
from reground.retrieval.bm25 import Bm25Index
from reground.retrieval.build import BM25, LEDGER, VECTORS, Build, Plan, Stopped, Watcher, plan
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.dense import DenseIndex
from reground.retrieval.documents import Document, SourceFile
from reground.retrieval.embedders import Embedder, create_embedder
from reground.retrieval.passages import document_ids, reciprocal_rank_fusion, whole
from reground.retrieval.scan import Scan, scan, written
from reground.retrieval.settings import IndexReport, IndexSettings, Progress, Skipped
from reground.retrieval.storage import (
    MANIFEST,
    UNFINISHED,
    Building,
    EmbedderIdentity,
    FileEntry,
    Hold,
    Manifest,
    building,
    check_files,
    peek,
    read_manifest,
    readable_manifest,
)

_FUSED = 100  # passages of each ranking that are joined


def retriever_name(manifest: Manifest) -> str:
    """The index's kind and fingerprint, so that a changed index has another name."""
    return f"{manifest.settings['kind']}@{manifest.fingerprint}"


class IndexRetriever:
    """An open index. `name` holds its kind and fingerprint, `manifest` everything else.

    With both words and vectors, the rankings are joined by reciprocal rank fusion, which then gives the scores.
    check: compares the contents of an index with its manifest, where that was not done when it was opened.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        bm25: Bm25Index | None = None,
        dense: DenseIndex | None = None,
        hold: Hold,
        check: Callable[[], object] | None = None,
    ) -> None:
        self.name = retriever_name(manifest)
        self.manifest = manifest
        self.language = str(manifest.settings["language"])
        self._bm25 = bm25
        self._dense = dense
        self._check = check
        self._hold = hold  # keeps the files from being cleaned away

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages. Raises RetrievalError, and IndexRefused for a damaged index: nothing found is a reason
        to check one that was too large to check when it was opened."""
        depth = k if self._bm25 is None or self._dense is None else max(k, _FUSED)
        searches = []
        if self._bm25 is not None:
            searches.append(asyncio.to_thread(self._bm25.search, query, depth))
        if self._dense is not None:
            searches.append(self._dense.search(query, depth))
        rankings = await asyncio.gather(*searches)
        passages = rankings[0]
        if len(rankings) > 1:
            by_id = {passage.id: passage for ranking in rankings for passage in ranking}
            fused = reciprocal_rank_fusion([passage.id for passage in ranking] for ranking in rankings)
            passages = [by_id[id_].model_copy(update={"score": score}) for id_, score in fused[: max(k, 0)]]
        if not passages and k > 0 and self._check is not None:
            check, self._check = self._check, None
            await asyncio.to_thread(check)
        return passages

    async def page(self, passage_id: str, /) -> Passage | None:
        """The document of a passage, put together from its pieces. Raises RetrievalError."""
        part = self._bm25 if self._bm25 is not None else self._dense
        assert part is not None
        for document in document_ids(passage_id):
            pieces = await asyncio.to_thread(part.pieces, Document(document, "", "").key)
            if pieces:
                overlapping = bool(self.manifest.settings.get("overlap"))
                return whole(pieces, document, around=passage_id, overlapping=overlapping)
        return None

    async def aclose(self) -> None:
        """Close the embedder's connections; the retriever can still be used and opens new ones."""
        if self._dense is not None:
            await self._dense.aclose()


_NAMED = 3  # files of a kind that a note names


def build_index(
    source: Path,
    out: Path,
    settings: IndexSettings | None = None,
    *,
    progress: Watcher | None = None,
    decontaminate: Decontaminator | None = None,
    embedder: Embedder | None = None,
    save_every: float = 60.0,
) -> IndexReport:
    """Index the documents of a folder or file into the folder `out`, or bring the index that is there up to date.

    With the settings that the index has, only files that changed are read, and of a JSONL corpus only documents that
    changed are indexed. Otherwise, or where the index is damaged, it is made again. Until all is done the old index
    stays as it is, and what `progress` raises ends the build there. What was done is saved after a file, every
    `save_every` seconds, and from there the next call goes on after an interruption or a kill. Passages that
    `decontaminate` finds an overlap in are left out. `embedder` is used instead of the one that the settings name.
    Blocks, and must not be called on an event loop: call it in a thread.

    Raises DataError (no documents, a malformed line), ConfigurationError (settings, a foreign folder), IndexBusy
    (another build is going on), MissingExtra, and ModelError where the embedder fails.
    """
    started = time.monotonic()
    settings = settings if settings is not None else IndexSettings()
    corpus = scan(source, exclude=out, progress=lambda count: progress and progress(Progress(listed=count)))
    if settings.kind == "bm25":
        embedder = None
    elif embedder is None:
        embedder = create_embedder(settings.embedder or "", base_url=settings.embedder_url)
    elif embedder.name != settings.embedder:
        raise ConfigurationError(f"the settings name the embedder {settings.embedder}, not {embedder.name}")
    wanted = _wanted(source, settings, embedder, decontaminate)
    base, todo = _compare(out, wanted, corpus.files)
    if base is not None and not todo.changed and not todo.gone and not todo.is_begun:
        return _report(out, source, base, corpus, peek(out / base.generation / LEDGER), started)
    try:
        with building(out):
            base, todo = _compare(out, wanted, corpus.files)  # again, now that nobody else can change it
            generation = Building(out, base)
            with contextlib.closing(Build(generation, wanted, embedder, decontaminate, progress, save_every)) as build:
                build.run(todo)
                entries = build.ledger.files()
                documents, _ = build.ledger.totals()
                if not documents:
                    why = _named([f"{file.path} ({file.why})" for file in _skipped(entries)])
                    count = f"{len(corpus.files)} file{'s' if len(corpus.files) > 1 else ''}"
                    raise DataError(f"no document with text in {count}{': ' if why else ''}{why}", path=source)
                passages = build.finish()
                if not passages:
                    raise DataError(f"all of its {documents} documents overlap what must be kept out", path=source)
            whole = build.manifest(generation, passages)
            generation.publish(whole)
    except Stopped as stopped:
        raise stopped.why from None
    report = _report(out, source, whole, corpus, entries, started, notes=_limits(settings, embedder))
    return report.model_copy(update={**build.report(), "kept": documents - build.read})


def _wanted(
    source: Path, settings: IndexSettings, embedder: Embedder | None, decontaminate: Decontaminator | None
) -> Manifest:
    """The manifest of the index that is to be, as far as it is known before."""
    weights = getattr(embedder, "weights", None)
    return Manifest(
        generation="",
        fingerprint="",
        source=written(source.resolve()),
        settings=settings.as_record(),
        documents=0,
        passages=0,
        embedder=EmbedderIdentity(name=embedder.name, dimension=0, weights=weights) if embedder is not None else None,
        decontaminated=decontaminate.fingerprint if decontaminate else None,
        terms=settings.terms,
        files={},
    )


def open_index(path: Path, *, embedder: Embedder | None = None, verify: bool | None = None) -> IndexRetriever:
    """Open an index. It stays usable while the index is rebuilt.

    Checks the files' sizes, and in a small index (or with `verify`) their contents. `embedder` replaces the one that
    the index names and must have the same name.
    Raises IndexRefused with the reason and what to do, and MissingExtra.
    """
    for _ in range(3):
        manifest = read_manifest(path)
        hold = Hold(path / manifest.generation)
        try:
            checked = check_files(path, manifest, whole=verify)
            bm25, dense = _open_parts(path, manifest, embedder)
        except BaseException as error:
            hold.release()
            # It may have been replaced between reading the manifest and opening what it names.
            if isinstance(error, IndexRefused) and read_manifest(path).generation != manifest.generation:
                continue
            raise
        check = None if checked else partial(check_files, path, manifest, whole=True)
        return IndexRetriever(manifest, bm25=bm25, dense=dense, hold=hold, check=check)
    raise IndexRefused(f"the index {path} is being replaced too fast to be opened; try again")


def _open_parts(
    path: Path, manifest: Manifest, embedder: Embedder | None
) -> tuple[Bm25Index | None, DenseIndex | None]:
    folder = path / manifest.generation
    try:
        settings = IndexSettings(**manifest.settings)  # type: ignore[arg-type]
    except (TypeError, ConfigurationError) as error:
        raise IndexRefused(f"the index {path} has settings that this reground does not know: {error}") from None
    bm25 = Bm25Index(folder / BM25, settings.language) if settings.kind != "dense" else None
    if settings.kind == "bm25":
        return bm25, None
    if embedder is not None and embedder.name != settings.embedder:
        raise IndexRefused(
            f"the index {path} was made with the embedder {settings.embedder}, not {embedder.name}; "
            "open it with that one, or build it again"
        )
    if embedder is None:  # its address is the word of whoever made the index
        embedder = create_embedder(settings.embedder or "", base_url=settings.embedder_url, sends_key=False)
    dense = DenseIndex(folder / VECTORS, embedder, prefix=settings.query_prefix)
    if manifest.embedder is None or manifest.embedder.dimension != dense.dimension:
        raise IndexRefused(f"the index {path} is damaged: its vectors are not those of its manifest")
    if manifest.embedder.weights not in (None, getattr(embedder, "weights", None)):
        raise IndexRefused(
            f"the index {path} was made with other weights of {embedder.name} than there are now; "
            f"build it again: reground index CORPUS --out {path}"
        )
    return bm25, dense


def _compare(out: Path, wanted: Manifest, files: Sequence[SourceFile]) -> tuple[Manifest | None, Plan]:
    """The index to update, if there is one, and what has to be done for the one that is wanted."""
    for name in (UNFINISHED, MANIFEST):
        base = readable_manifest(out, name)
        if base is None or not _could_become(base, wanted):
            continue
        try:
            check_files(out, base)
            entries = peek(out / base.generation / LEDGER)
        except (IndexRefused, sqlite3.Error):
            continue
        return base, plan(files, entries, same_folder=base.source == wanted.source, is_begun=name == UNFINISHED)
    return None, Plan(files, files)


def _could_become(base: Manifest, wanted: Manifest) -> bool:
    """Whether an update makes an index the one that is wanted; the address of its embedder makes no difference."""
    same_weights = base.embedder is None or wanted.embedder is None or base.embedder.weights == wanted.embedder.weights
    same_settings = {**base.settings, "embedder_url": None} == {**wanted.settings, "embedder_url": None}
    same_terms = (base.decontaminated, base.terms) == (wanted.decontaminated, wanted.terms)
    return same_weights and same_settings and same_terms


def _limits(settings: IndexSettings, embedder: Embedder | None) -> tuple[str, ...]:
    limit = embedder.limit if embedder is not None else None
    if limit is None or limit >= settings.chunk_tokens:
        return ()
    return (
        f"{settings.embedder} reads about {limit} tokens of a passage, and passages have up to "
        f"{settings.chunk_tokens}: with --chunk-tokens {limit * 4 // 5} their vectors speak for all of them.",
    )


def _named(files: Sequence[str]) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(files[:_NAMED]) + more


def _skipped(files: dict[str, FileEntry], unread: Sequence[Skipped] = ()) -> tuple[Skipped, ...]:
    failed = [Skipped(path=each.name, why=each.skipped, kind=each.kind) for each in files.values() if each.skipped]
    return tuple(sorted([*failed, *unread], key=lambda each: each.path))


def _report(
    out: Path,
    source: Path,
    manifest: Manifest,
    corpus: Scan,
    files: dict[str, FileEntry],
    started: float,
    notes: tuple[str, ...] = (),
) -> IndexReport:
    """What is in an index, as if nothing had changed."""
    partly = tuple(Skipped(path=each.name, why=each.partly, kind="partly") for each in files.values() if each.partly)
    if partly:
        notes = (f"read in part: {_named([f'{each.path} ({each.why})' for each in partly])}", *notes)
    guesses = [f"{each.name} ({each.guessed})" for each in files.values() if each.guessed]
    if guesses:
        notes = (f"not UTF-8, read in an encoding that is a guess: {_named(guesses)}", *notes)
    return IndexReport(
        path=out,
        source=source,
        language=str(manifest.settings["language"]),
        name=retriever_name(manifest),
        documents=manifest.documents,
        passages=manifest.passages,
        kept=manifest.documents,
        skipped=_skipped(files, corpus.unread),
        partly=partly,
        notes=notes,
        seconds=time.monotonic() - started,
        # The most bytes resident, mapped files included: macOS counts bytes, Linux kilobytes.
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    )
