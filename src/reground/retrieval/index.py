"""An index of a user's documents: building it, bringing it up to date, opening it, and searching it.

`build.py` goes through the documents, `storage.py` is the folder on disk, `bm25.py` and `dense.py` search it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from reground.core.errors import ConfigurationError, DataError, IndexRefused
from reground.core.evidence import Passage
from reground.retrieval.bm25 import Bm25Index, Bm25Writer
from reground.retrieval.build import Build, Plan, Stopped, Watcher, plan
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.dense import DenseIndex, DenseWriter
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
    Ledger,
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
        self._bm25 = bm25
        self._dense = dense
        self._check = check
        self._hold = hold  # keeps the files from being cleaned away

    @property
    def language(self) -> str:
        """The language that the documents were indexed in."""
        return str(self.manifest.settings["language"])

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages. Raises RetrievalError.

        An empty result may mean damage. So the contents of an index that was too large to check when it was opened are
        checked then. Raises IndexRefused if it is damaged.
        """
        passages = await self._search(query, k)
        if not passages and k > 0 and self._check is not None:
            check, self._check = self._check, None
            await asyncio.to_thread(check)
        return passages

    async def _search(self, query: str, k: int) -> Sequence[Passage]:
        if self._bm25 is not None and self._dense is not None:
            depth = max(k, _FUSED)
            by_words, by_vectors = await asyncio.gather(
                asyncio.to_thread(self._bm25.search, query, depth), self._dense.search(query, depth)
            )
            return _fuse([by_words, by_vectors])[: max(k, 0)]
        if self._dense is not None:
            return await self._dense.search(query, k)
        if self._bm25 is not None:
            return await asyncio.to_thread(self._bm25.search, query, k)
        raise AssertionError

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


def _fuse(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    passages = {passage.id: passage for ranking in rankings for passage in ranking}
    fused = reciprocal_rank_fusion([passage.id for passage in ranking] for ranking in rankings)
    return [passages[id_].model_copy(update={"score": score}) for id_, score in fused]


_BM25 = "bm25"
_VECTORS = "vectors"
_LEDGER = "ledger.sqlite"
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
    if embedder is not None and settings.kind != "bm25" and embedder.name != settings.embedder:
        raise ConfigurationError(f"the settings name the embedder {settings.embedder}, not {embedder.name}")
    embedder = _embedder(settings, embedder)
    weights = getattr(embedder, "weights", None)
    wanted = Manifest(
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
    base, todo = _compare(out, wanted, corpus.files)
    if base is not None and not todo.changed and not todo.gone and not todo.is_begun:
        return _report(out, source, base, corpus, peek(out / base.generation / _LEDGER), started)
    try:
        with building(out):
            base, todo = _compare(out, wanted, corpus.files)  # again, now that nobody else can change it
            generation = Building(out, base)
            generation.start(out / base.generation if base is not None else None)
            with contextlib.ExitStack() as opened:
                ledger = opened.enter_context(contextlib.closing(Ledger(generation.folder / _LEDGER)))
                writers = [
                    opened.enter_context(contextlib.closing(writer))
                    for writer in _writers(generation.folder, settings, embedder)
                ]
                saved = started

                def save() -> None:
                    nonlocal saved
                    if time.monotonic() - saved < save_every:
                        return
                    for part in (*writers, ledger):
                        part.save()
                    generation.keep(lambda copy: _described(copy, wanted, ledger.totals(), writers, build.passages))
                    saved = time.monotonic()

                build = Build(ledger, writers, settings, decontaminate=decontaminate, watcher=progress, on_file=save)
                build.run(todo)
                totals, entries = ledger.totals(), ledger.files()
                if not totals[0]:
                    raise DataError(_nothing(corpus.files, _skipped(entries)), path=source)
                passages = max(writer.finish(build.tick) for writer in writers)
                if passages == 0:
                    raise DataError(f"all of its {totals[0]} documents overlap what must be kept out", path=source)
            whole = _described(generation, wanted, totals, writers, passages)
            generation.publish(whole)
    except Stopped as stopped:
        raise stopped.why from None
    report = _report(out, source, whole, corpus, entries, started, notes=_limits(settings, embedder))
    return report.model_copy(update={**build.report(), "kept": whole.documents - build.read})


def open_index(path: Path, *, embedder: Embedder | None = None, verify: bool | None = None) -> IndexRetriever:
    """Open an index. It stays usable while the index is rebuilt.

    Checks the files' sizes, and in a small index (or with `verify`) their contents. `embedder` replaces the one that
    the index names and must have the same name.
    Raises IndexRefused with the reason and what to do, and MissingExtra.
    """
    for _ in range(3):
        manifest = read_manifest(path)
        try:
            return _open(path, manifest, embedder, verify)
        except IndexRefused:
            # Replaced between reading the manifest and opening what it names?
            if read_manifest(path).generation == manifest.generation:
                raise
    raise IndexRefused(f"the index {path} is being replaced too fast to be opened; try again")


def _open(path: Path, manifest: Manifest, embedder: Embedder | None, verify: bool | None) -> IndexRetriever:
    hold = Hold(path / manifest.generation)
    try:
        checked = check_files(path, manifest, whole=verify)
        bm25, dense = _open_parts(path, manifest, embedder)
    except BaseException:
        hold.release()
        raise
    check = None if checked else partial(check_files, path, manifest, whole=True)
    return IndexRetriever(manifest, bm25=bm25, dense=dense, hold=hold, check=check)


def _open_parts(
    path: Path, manifest: Manifest, embedder: Embedder | None
) -> tuple[Bm25Index | None, DenseIndex | None]:
    folder = path / manifest.generation
    try:
        settings = IndexSettings(**manifest.settings)  # type: ignore[arg-type]
    except (TypeError, ConfigurationError) as error:
        raise IndexRefused(f"the index {path} has settings that this reground does not know: {error}") from None
    bm25 = Bm25Index(folder / _BM25, settings.language) if settings.kind != "dense" else None
    if settings.kind == "bm25":
        return bm25, None
    if embedder is not None and embedder.name != settings.embedder:
        raise IndexRefused(
            f"the index {path} was made with the embedder {settings.embedder}, not {embedder.name}; "
            "open it with that one, or build it again"
        )
    embedder = _embedder(settings, embedder, sends_key=False)  # its address is the word of whoever made the index
    assert embedder is not None
    dense = DenseIndex(folder / _VECTORS, embedder, prefix=settings.query_prefix)
    if manifest.embedder is None or manifest.embedder.dimension != dense.dimension:
        raise IndexRefused(f"the index {path} is damaged: its vectors are not those of its manifest")
    weights = getattr(embedder, "weights", None)
    if manifest.embedder.weights not in (None, weights):
        raise IndexRefused(
            f"the index {path} was made with other weights of {embedder.name} than there are now; "
            f"build it again: reground index CORPUS --out {path}"
        )
    return bm25, dense


def _embedder(settings: IndexSettings, embedder: Embedder | None, *, sends_key: bool = True) -> Embedder | None:
    """What makes the vectors of an index; None of one without. sends_key: as in `EndpointEmbedder`."""
    if settings.kind == "bm25":
        return None
    return embedder or create_embedder(settings.embedder or "", base_url=settings.embedder_url, sends_key=sends_key)


def _writers(folder: Path, settings: IndexSettings, embedder: Embedder | None) -> Iterator[Bm25Writer | DenseWriter]:
    if settings.kind != "dense":
        yield Bm25Writer(folder / _BM25, settings.language)
    if embedder is not None:
        yield DenseWriter(folder / _VECTORS, embedder, prefix=settings.passage_prefix)


def _compare(out: Path, wanted: Manifest, files: Sequence[SourceFile]) -> tuple[Manifest | None, Plan]:
    """The index to update, if there is one, and what has to be done for the one that is wanted."""
    for name in (UNFINISHED, MANIFEST):
        base = readable_manifest(out, name)
        if base is None or not _could_become(base, wanted):
            continue
        try:
            check_files(out, base)
            entries = peek(out / base.generation / _LEDGER)
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


def _described(
    generation: Building,
    wanted: Manifest,
    totals: tuple[int, int],
    writers: Sequence[Bm25Writer | DenseWriter],
    passages: int,
) -> Manifest:
    """The manifest of a generation whose parts are written out. totals: those of its ledger."""
    documents, content = totals
    dimension = next((writer.dimension for writer in writers if isinstance(writer, DenseWriter)), None)
    embedder = wanted.embedder.model_copy(update={"dimension": dimension}) if wanted.embedder and dimension else None
    made = {"generation": generation.name, "fingerprint": _fingerprint(wanted, content), "documents": documents}
    return wanted.model_copy(update={**made, "passages": passages, "embedder": embedder, "files": generation.checks()})


def _fingerprint(wanted: Manifest, content: int) -> str:
    """Changes with any document, the settings, the terms, the embedder's weights and what was kept out; the same
    however the index came to be."""
    settings = sorted({**wanted.settings, "embedder_url": None}.items())
    digest = _digest(f"{content}\0{settings}\0{wanted.decontaminated or ''}")
    if wanted.embedder is not None and wanted.embedder.weights is not None:
        digest = _digest(f"{digest}\0{wanted.embedder.weights}")
    return _digest(f"{digest}\0terms {wanted.terms}") if wanted.terms > 1 else digest


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _limits(settings: IndexSettings, embedder: Embedder | None) -> tuple[str, ...]:
    limit = embedder.limit if embedder is not None else None
    if limit is None or limit >= settings.chunk_tokens:
        return ()
    return (
        f"{settings.embedder} reads about {limit} tokens of a passage, and passages have up to "
        f"{settings.chunk_tokens}: with --chunk-tokens {limit * 4 // 5} their vectors speak for all of them.",
    )


def _named(what: Sequence[str]) -> str:
    more = f" and {len(what) - _NAMED} more" if len(what) > _NAMED else ""
    return ", ".join(what[:_NAMED]) + more


def _nothing(files: Sequence[SourceFile], skipped: Sequence[Skipped]) -> str:
    why = _named([f"{file.path} ({file.why})" for file in skipped])
    return f"no document with text in {len(files)} file{'s' if len(files) > 1 else ''}{': ' if why else ''}{why}"


def _skipped(files: dict[str, FileEntry], unread: Sequence[Skipped] = ()) -> tuple[Skipped, ...]:
    failed = [Skipped(path=each.name, why=each.skipped, kind=each.kind) for each in files.values() if each.skipped]
    return tuple(sorted([*failed, *unread], key=lambda each: each.path))


def _peak() -> int:
    """The most bytes that this process held resident, mapped files included. macOS counts bytes, Linux kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


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
        memory=_peak(),
    )
