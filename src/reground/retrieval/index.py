"""An index of a user's documents: building it, bringing it up to date, opening it, and searching it.

`build.py` goes through the documents, `storage.py` is the folder on disk, `bm25.py` and `dense.py` search it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from reground.core.errors import ConfigurationError, DataError, IndexRefused
from reground.core.evidence import Passage
from reground.retrieval import storage
from reground.retrieval.bm25 import Bm25Index
from reground.retrieval.build import BM25, LEDGER, LISTED, VECTORS, Build, Stopped, Watcher, plan
from reground.retrieval.chunking import distinct, document_ids, reciprocal_rank_fusion, whole
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.dense import DenseIndex
from reground.retrieval.documents import Scan, key_of, scan, written
from reground.retrieval.embedders import Embedder, create_embedder
from reground.retrieval.filters import ALL, FilterError, Globs, Where
from reground.retrieval.filters import where as read_filter
from reground.retrieval.settings import IndexReport, IndexSettings, Progress, Skipped

_FUSED = 100  # passages of each ranking that are joined
_DEEPEST = 10_000  # passages that are looked at for `k` different ones


@dataclass(eq=False)
class IndexRetriever:
    """An open index. `name` holds its kind and fingerprint, `manifest` everything else.

    With both words and vectors, the rankings are joined by reciprocal rank fusion, which then gives the scores.
    check: compares the contents of an index with its manifest, where that was not done when it was opened. ledger: the
    file that knows its documents. among: the keys of those that are searched; None for all.
    """

    manifest: storage.Manifest
    bm25: Bm25Index | None
    dense: DenseIndex | None
    hold: storage.Hold  # keeps the files from being cleaned away
    check: Callable[[], object] | None
    ledger: Path
    among: frozenset[int] | None = None

    def __post_init__(self) -> None:
        self.name = self.manifest.name
        self.language = str(self.manifest.settings["language"])

    async def only(self, where: str, /) -> IndexRetriever:
        """The same index, of which only the documents that a filter chooses are searched and opened.

        Raises FilterError for one that cannot be read, for a field that no document has, and where none is chosen.
        """
        read = read_filter(where)
        among = await asyncio.to_thread(self._select, read)
        filtered = replace(self, among=among if self.among is None else self.among & among)
        if not filtered.among:
            raise FilterError(f"no document fulfils the filter {read.text!r}")
        keys = hashlib.blake2b(repr(sorted(filtered.among)).encode(), digest_size=4).hexdigest()
        filtered.name = f"{self.name} where {read.text} ({keys})"
        return filtered

    def _select(self, where: Where) -> frozenset[int]:
        """The keys of the documents that a filter chooses. Raises FilterError for a field that none has."""
        names, keys = {"path", "type", "modified"}, set[int]()
        with storage.refusing("the index does not say what it is made of"):
            for key, name, changed, metadata in storage.metadata_of(self.ledger):
                moment = datetime.fromtimestamp(changed / 1e9, UTC).isoformat(timespec="seconds")
                file = {"path": [name], "type": [PurePosixPath(name).suffix[1:]], "modified": [moment]}
                fields = file | json.loads(metadata or "{}")
                names.update(fields)
                if where.meets(fields):
                    keys.add(key)
        where.check(names)
        return frozenset(keys)

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages; of copies the best, of equally good ones that whose id comes first.

        Raises RetrievalError, and IndexRefused for a damaged index: nothing found is a reason to check one that was too
        large to check when it was opened.
        """
        depth, passages = k, await self._search(query, k)
        while len(unlike := distinct(passages)) < k and len(passages) == depth <= _DEEPEST:  # for copies took places
            depth *= 4
            passages = await self._search(query, depth)
        passages = unlike[: max(k, 0)]
        if not passages and k > 0 and self.check is not None:
            check, self.check = self.check, None
            await asyncio.to_thread(check)
        return passages

    async def _search(self, query: str, k: int) -> Sequence[Passage]:
        """The `k` best passages with their copies."""
        depth = k if self.bm25 is None or self.dense is None else max(k, _FUSED)
        searches = []
        if self.bm25 is not None:
            searches.append(asyncio.to_thread(self.bm25.search, query, depth, self.among))
        if self.dense is not None:
            searches.append(self.dense.search(query, depth, self.among))
        rankings = await asyncio.gather(*searches)
        if len(rankings) == 1:
            return rankings[0]
        by_id = {passage.id: passage for ranking in rankings for passage in ranking}
        fused = reciprocal_rank_fusion([passage.id for passage in ranking] for ranking in rankings)
        return [by_id[id_].model_copy(update={"score": score}) for id_, score in fused[: max(k, 0)]]

    def passages(self) -> list[Passage]:
        """Every passage, in the order of their ids. Blocks. Raises IndexRefused."""
        with storage.refusing("the index does not say what it is made of"):
            keys = [key for key, *_ in storage.metadata_of(self.ledger)]
        return sorted((piece for key in keys for piece in self._pieces(key)), key=lambda piece: piece.id)

    def _pieces(self, key: int) -> list[Passage]:
        part = self.bm25 if self.bm25 is not None else self.dense
        assert part is not None
        return part.pieces(key) if self.among is None or key in self.among else []

    async def page(self, passage_id: str, /) -> Passage | None:
        """The document of a passage, put together from its pieces. Raises RetrievalError."""
        for document in document_ids(passage_id):
            pieces = await asyncio.to_thread(self._pieces, key_of(document))
            if pieces:
                overlapping = bool(self.manifest.settings.get("overlap"))
                return whole(pieces, document, around=passage_id, overlapping=overlapping)
        return None

    async def aclose(self) -> None:
        """Close the embedder's connections; the retriever can still be used and opens new ones."""
        if self.dense is not None:
            await self.dense.aclose()


_EXAMPLES = 3  # files of a kind that a note names


def build_index(
    source: Path,
    out: Path,
    settings: IndexSettings | None = None,
    *,
    progress: Watcher | None = None,
    decontaminate: Decontaminator | None = None,
    embedder: Embedder | None = None,
    save_every: float = 60.0,
    corpus: Scan | None = None,
    globs: Globs = ALL,
) -> IndexReport:
    """Index the documents of a folder or file into the folder `out`, or bring the index that is there up to date.

    With the settings that the index has, only files that changed are read, and of a JSONL corpus only documents that
    changed are indexed. Otherwise, or where the index is damaged, it is made again. Until all is done the old index
    stays as it is, and what `progress` raises ends the build there. What was done is saved after a file, every
    `save_every` seconds, and from there the next call goes on after an interruption or a kill. Passages that
    `decontaminate` finds an overlap in are left out. `embedder` is used instead of the one that the settings name.
    globs: which files of a folder are read. corpus: those, if it was just scanned. Blocks, and must not be called on an
    event loop: call it in a thread.

    Raises DataError (no documents, a malformed line), ConfigurationError (settings, a foreign folder), IndexBusy
    (another build is going on), MissingExtra, and ModelError where the embedder fails.
    """
    started = time.monotonic()
    settings = settings if settings is not None else IndexSettings()
    if corpus is None:
        report = lambda count: progress and progress(Progress(listed=count))  # noqa: E731
        corpus = scan(source, exclude=out, progress=report, globs=globs)
    if settings.kind == "bm25":
        embedder = None
    elif embedder is None:
        embedder = create_embedder(settings.embedder or "", base_url=settings.embedder_url)
    elif embedder.name != settings.embedder:
        raise ConfigurationError(f"the settings name the embedder {settings.embedder}, not {embedder.name}")
    target = storage.Manifest(
        generation="",
        fingerprint="",
        source=written(source.resolve()),
        settings=asdict(settings),
        documents=0,
        passages=0,
        embedder=storage.EmbedderIdentity(name=embedder.name, weights=getattr(embedder, "weights", None))
        if embedder is not None
        else None,
        decontaminated=decontaminate.fingerprint if decontaminate is not None else None,
        terms=settings.terms,
        files={},
    )
    todo = plan(out, target, corpus.files)
    if todo.base is not None and not todo.changed and not todo.removed and not todo.is_begun:
        entries = storage.peek(out / todo.base.generation / LEDGER)
        return _report(out, source, todo.base, corpus, entries, started)
    try:
        with storage.building(out):
            todo = plan(out, target, corpus.files)  # again, now that nobody else can change it
            with closing(Build(out, target, todo, embedder, decontaminate, progress, save_every)) as build:
                build.run()
                entries = build.ledger.files()
                documents, _ = build.ledger.totals()
                if not documents:
                    why = _examples([f"{file.path} ({file.why})" for file in _skipped(entries)])
                    count = f"{len(corpus.files)} file{'s' if len(corpus.files) > 1 else ''}"
                    raise DataError(f"no document with text in {count}{': ' if why else ''}{why}", path=source)
                if not (passages := build.finish()):
                    raise DataError(f"all of its {documents} documents overlap what must be kept out", path=source)
                manifest = build.publish(passages)
    except Stopped as stopped:
        raise stopped.why from None
    limit = embedder.limit if embedder is not None else None
    notes: tuple[str, ...] = ()
    if limit is not None and limit < settings.chunk_tokens:
        notes = (
            f"{settings.embedder} reads about {limit} tokens of a passage, and passages have up to "
            f"{settings.chunk_tokens}: with --chunk-tokens {limit * 4 // 5} their vectors speak for all of them.",
        )
    return _report(out, source, manifest, corpus, entries, started, build, notes)


def open_index(path: Path, *, embedder: Embedder | None = None, verify: bool | None = None) -> IndexRetriever:
    """Open an index. It stays usable while the index is rebuilt.

    Checks the files' sizes, and in a small index (or with `verify`) their contents. `embedder` replaces the one that
    the index names and must have the same name.
    Raises IndexRefused with the reason and what to do, and MissingExtra.
    """
    for _ in range(3):
        manifest = storage.read_manifest(path)
        hold = storage.Hold(path / manifest.generation)
        try:
            checked = storage.check_files(path, manifest, whole=verify)
            bm25, dense = _open_parts(path, manifest, embedder)
        except BaseException as error:
            hold.release()
            # It may have been replaced between reading the manifest and opening what it names.
            if isinstance(error, IndexRefused) and storage.read_manifest(path).generation != manifest.generation:
                continue
            raise
        check = None if checked else partial(storage.check_files, path, manifest, whole=True)
        return IndexRetriever(manifest, bm25, dense, hold, check, path / manifest.generation / LEDGER)
    raise IndexRefused(f"the index {path} is being replaced too fast to be opened; try again")


def _open_parts(
    path: Path, manifest: storage.Manifest, embedder: Embedder | None
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


def _examples(files: Sequence[str]) -> str:
    more = f" and {len(files) - _EXAMPLES} more" if len(files) > _EXAMPLES else ""
    return ", ".join(files[:_EXAMPLES]) + more


def _skipped(files: dict[str, storage.FileEntry], unread: Sequence[Skipped] = ()) -> tuple[Skipped, ...]:
    failed = [Skipped(path=each.name, why=each.skipped, kind=each.kind) for each in files.values() if each.skipped]
    return tuple(sorted([*failed, *unread], key=lambda each: each.path))


def _report(
    out: Path,
    source: Path,
    manifest: storage.Manifest,
    corpus: Scan,
    files: dict[str, storage.FileEntry],
    started: float,
    build: Build | None = None,
    notes: tuple[str, ...] = (),
) -> IndexReport:
    """What is in an index, and what a build did, if there was something to do."""
    partly = tuple(Skipped(path=each.name, why=each.partly, kind="partly") for each in files.values() if each.partly)
    if partly:
        notes = (f"read in part: {_examples([f'{each.path} ({each.why})' for each in partly])}", *notes)
    guesses = [f"{each.name} ({each.guessed})" for each in files.values() if each.guessed]
    if guesses:
        notes = (f"not UTF-8, read in an encoding that is a guess: {_examples(guesses)}", *notes)
    counts: dict[str, object] = {"kept": manifest.documents}
    if build is not None:
        duplicates = (id_ for ids in build.duplicates.values() for id_ in ids)
        counts = {
            "read": build.read,
            "kept": manifest.documents - build.read,
            "removed": build.removed,
            "duplicates": tuple(islice(duplicates, LISTED)),
            "duplicate_count": build.duplicate_counts.total(),
            "dropped": tuple(build.dropped),
            "dropped_count": build.dropped_count,
        }
    return IndexReport(
        path=out,
        source=source,
        language=str(manifest.settings["language"]),
        name=manifest.name,
        documents=manifest.documents,
        passages=manifest.passages,
        skipped=_skipped(files, corpus.unread),
        partly=partly,
        notes=notes,
        seconds=time.monotonic() - started,
        # The most bytes resident, mapped files included: macOS counts bytes, Linux kilobytes.
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        **counts,  # type: ignore[arg-type]
    )
