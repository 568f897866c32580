"""Building an index from a user's documents, bringing it up to date, and opening it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from reground.core.errors import DataError, IndexRefused
from reground.core.evidence import Passage
from reground.retrieval.bm25 import Bm25Index, Bm25Writer
from reground.retrieval.build import Build, Contamination, PassageWriter, Watcher, plan
from reground.retrieval.documents import SourceFile, find_files
from reground.retrieval.folder import Building, Hold, Manifest, building, check_files, read_manifest
from reground.retrieval.ledger import FileEntry, Ledger, peek
from reground.retrieval.settings import IndexReport, IndexSettings, Skipped

_BM25 = "bm25"
_LEDGER = "ledger.sqlite"


def build_index(
    source: Path,
    out: Path,
    settings: IndexSettings | None = None,
    *,
    decontaminate: Contamination | None = None,
    progress: Watcher | None = None,
) -> IndexReport:
    """Index the documents of a folder or file into the folder `out`, or bring the index that is there up to date.

    With the settings that the index has, only files that changed are read, and of a JSONL corpus only documents that
    changed are indexed. Otherwise, or where the index is damaged, it is made anew. Until all is done the old index
    stays as it is. Passages that `decontaminate` finds an overlap in are left out. Blocks: call it in a thread.

    Raises DataError (no documents, a malformed line), ConfigurationError (settings, a foreign folder, another
    build going on) and MissingExtra.
    """
    started = time.monotonic()
    settings = settings or IndexSettings()
    files = find_files(source, exclude=out)
    base, (changed, gone) = _compare(files, source, out, settings, decontaminate)
    if base is not None and not changed and not gone:
        return _report(out, base, skipped=_skipped(out, base), started=started)
    with building(out) as generation:
        # Again, now that nobody else can change it.
        base, (changed, gone) = _compare(files, source, out, settings, decontaminate)
        generation.start(base)
        ledger = Ledger(generation.folder / _LEDGER)
        ledger.state("source", str(source.resolve()))
        writers = _writers(generation, settings)
        build = Build(ledger, writers, settings, contamination=decontaminate, watcher=progress)
        try:
            build.run(changed, gone)
            documents = ledger.count()
            skipped = tuple(Skipped(path=e.name, why=e.skipped) for e in ledger.files().values() if e.skipped)
            if not documents:
                raise DataError(_nothing(files, skipped), path=source)
            for writer in writers:
                writer.finish()
        except BaseException:
            for writer in writers:
                writer.abandon()
            raise
        finally:
            ledger.close()
        manifest = Manifest(
            generation=generation.name,
            fingerprint=build.fingerprint(),
            settings=settings.as_record(),
            documents=documents,
            passages=Bm25Index(generation.folder / _BM25, settings.language).passages,
            decontaminated=decontaminate.fingerprint if decontaminate else None,
            files=generation.checks(),
        )
        generation.publish(manifest)
    return _report(out, manifest, skipped=skipped, started=started, build=build)


def _compare(
    files: Sequence[SourceFile], source: Path, out: Path, settings: IndexSettings, contamination: Contamination | None
) -> tuple[Manifest | None, tuple[list[SourceFile], list[FileEntry]]]:
    """The index that can be brought up to date, if there is one, and what has to be read for it."""
    try:
        base = read_manifest(out)
        check_files(out, base)
        folder, known = peek(out / base.generation / _LEDGER)
    except (IndexRefused, sqlite3.Error):
        return None, (list(files), [])
    looked_for = contamination.fingerprint if contamination else None
    if not settings.makes_same_index(base.settings) or base.decontaminated != looked_for:
        return None, (list(files), [])
    return base, plan(files, known, same_folder=folder == str(source.resolve()))


def _writers(generation: Building, settings: IndexSettings) -> list[PassageWriter]:
    return [Bm25Writer(generation.folder / _BM25, settings.language)]


def _nothing(files: Sequence[SourceFile], skipped: Sequence[Skipped]) -> str:
    why = f", e.g. {skipped[0].path} {skipped[0].why}" if skipped else ""
    return f"no document with text in {len(files)} file{'s' if len(files) > 1 else ''}{why}"


def _skipped(out: Path, manifest: Manifest) -> tuple[Skipped, ...]:
    _, files = peek(out / manifest.generation / _LEDGER)
    return tuple(Skipped(path=entry.name, why=entry.skipped) for entry in files.values() if entry.skipped)


def _report(
    out: Path, manifest: Manifest, *, skipped: tuple[Skipped, ...], started: float, build: Build | None = None
) -> IndexReport:
    read = build.read if build else 0
    return IndexReport(
        path=out,
        name=_name(manifest),
        documents=manifest.documents,
        passages=manifest.passages,
        read=read,
        kept=manifest.documents - read,
        removed=build.removed if build else 0,
        skipped=skipped,
        duplicates=tuple(build.duplicates) if build else (),
        duplicate_count=build.duplicate_count if build else 0,
        dropped=tuple(build.dropped) if build else (),
        dropped_count=build.dropped_count if build else 0,
        seconds=time.monotonic() - started,
    )


def _name(manifest: Manifest) -> str:
    return f"{manifest.settings['kind']}@{manifest.fingerprint}"


class IndexRetriever:
    """An open index. `name` tells its kind and its fingerprint; `manifest` everything else."""

    def __init__(self, manifest: Manifest, bm25: Bm25Index, held: Hold) -> None:
        self.name = _name(manifest)
        self.manifest = manifest
        self._bm25 = bm25
        self._held = held

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages. Raises RetrievalError."""
        return await asyncio.to_thread(self._bm25.search, query, k)


def open_index(path: Path, *, verify: bool | None = None) -> IndexRetriever:
    """Open an index. It goes on working as it is when the index is built anew meanwhile.

    Files are compared by size with what was written, those of a small index (or with `verify`) by content too.
    Raises IndexRefused with the reason and what to do.
    """
    for attempt in range(3):
        manifest = read_manifest(path)
        try:
            return _open(path, manifest, verify)
        except IndexRefused:
            # Replaced between reading the manifest and opening what it names?
            if attempt == 2 or read_manifest(path).generation == manifest.generation:
                raise
    raise AssertionError


def _open(path: Path, manifest: Manifest, verify: bool | None) -> IndexRetriever:
    folder = path / manifest.generation
    held = Hold(folder)
    check_files(path, manifest, whole=verify)
    settings = IndexSettings(**manifest.settings)  # type: ignore[arg-type]
    return IndexRetriever(manifest, Bm25Index(folder / _BM25, settings.language), held)
