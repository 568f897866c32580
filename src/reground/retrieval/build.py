"""One pass over a corpus that brings an index up to date with it."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from reground.core.errors import IndexRefused
from reground.core.evidence import Passage
from reground.retrieval import storage
from reground.retrieval.bm25 import Bm25Writer
from reground.retrieval.chunking import chunk
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.dense import DenseWriter
from reground.retrieval.documents import PASSING, Document, SourceFile, format_of, read_documents, read_file
from reground.retrieval.embedders import Embedder
from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.pdf import could_read
from reground.retrieval.reading.result import Circumstances
from reground.retrieval.settings import Dropped, IndexSettings, Progress

BM25, VECTORS, LEDGER = "bm25", "vectors", "ledger.sqlite"
"""The parts of a generation."""

LISTED = 1000  # duplicates and dropped passages that a report names
_RACY_NS = 2_000_000_000  # a file changed this shortly before it was read may change again under the same time stamp
_TELL_SECONDS = 0.1  # between two reports of progress, each of which is a chance to stop
_PASSAGES_AT_ONCE = 64  # of one document, passed on together

Watcher = Callable[[Progress], None]


class Plan(NamedTuple):
    """What a build has to do: all files of the corpus, those to be read, and those that were removed.

    base: the index that it begins with. is_begun: whether that is what an interrupted build left, which may have
    removed what was in the way of documents.
    """

    files: Sequence[SourceFile]
    changed: Sequence[SourceFile]
    removed: Sequence[storage.FileEntry] = ()
    base: storage.Manifest | None = None
    is_begun: bool = False


def plan(out: Path, target: storage.Manifest, files: Sequence[SourceFile]) -> Plan:
    """What has to be done for the target index at `out`.

    A file is as it was if its size, its inode and its times are, and it was not changed just before it was read; in
    another corpus folder nothing is taken for granted. Its reader must be of the same version.
    """
    for name in (storage.UNFINISHED, storage.MANIFEST):
        try:
            base = storage.read_manifest(out, name)
            if base.recipe != target.recipe:
                continue
            storage.check_files(out, base)
            entries = storage.peek(out / base.generation / LEDGER)
        except (IndexRefused, sqlite3.Error):
            continue
        names = {file.name for file in files}
        removed = [entry for entry in entries.values() if entry.name not in names]
        same_folder = base.source == target.source
        changed = [file for file in files if not same_folder or _has_changed(file, entries.get(file.name))]
        return Plan(files, changed, removed, base, is_begun=name == storage.UNFINISHED)
    return Plan(files, files)


def _has_changed(file: SourceFile, entry: storage.FileEntry | None) -> bool:
    return (
        entry is None
        or (file.size, file.mtime_ns, file.inode) != (entry.size, entry.mtime_ns, entry.inode)
        or file.mtime_ns >= entry.seen_ns - _RACY_NS
        or _reads_better(file, entry)
    )


def _reads_better(file: SourceFile, entry: storage.FileEntry) -> bool:
    """Whether the same file may give another text by now."""
    return entry.reader != file.format.version or could_read(entry.skipped or entry.partly)


def passages_of(document: Document, size: int, overlap: int) -> Iterator[tuple[Passage, int]]:
    """A document's passages, and where each ends in its text. Its only passage has its id; of several the second is
    `id#2`."""
    format_ = format_of(document.source)
    pieces = chunk(document.text, size, overlap, is_code=format_ is not None and format_.is_code)
    first = list(islice(pieces, 2))
    for number, piece in enumerate(chain(first, pieces), start=1):
        id_ = document.id if len(first) == 1 else f"{document.id}#{number}"
        yield Passage(id=id_, title=document.title, text=piece.of(document.text), url=document.url), piece.end


class Stopped(BaseException):
    """An error of the watcher. A reader would take an ordinary exception for an error of its file."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


@dataclass
class Build:
    """Reads the files that changed and passes on what they hold; afterwards it holds the counts of what it did.

    What the watcher raises ends the build, as `Stopped`. It is called about ten times a second, also inside a large
    document. Between two files, every `save_every` seconds, everything so far is written out and copied for a build
    that goes on after this one was interrupted. target: the manifest, as far as it is known before.
    """

    out: Path
    target: storage.Manifest
    todo: Plan
    embedder: Embedder | None
    decontaminate: Decontaminator | None
    watcher: Watcher | None
    save_every: float

    def __post_init__(self) -> None:
        self.read = self.removed = self.passages = self.dropped_count = 0
        self.dropped: list[Dropped] = []
        self.duplicates: dict[str, list[str]] = {}  # of each file
        self.duplicate_counts: Counter[str] = Counter()
        self._settings = settings = IndexSettings(**self.target.settings)  # type: ignore[arg-type]
        self._saved = time.monotonic()
        self._met = 0  # documents
        self._place = Progress()
        self._share = 0.0  # of the present file, as far as it is known
        self._last_tick = 0.0
        self._around = Circumstances(tick=self.tick, language=settings.language)
        base = self.todo.base
        self._generation = storage.Building(self.out, base, "" if base is None else base.generation)
        folder = self._generation.folder
        with ExitStack() as opened:
            self.ledger = opened.enter_context(closing(storage.Ledger(folder / LEDGER)))
            self._writers: list[Bm25Writer | DenseWriter] = []
            if settings.kind != "dense":
                self._writers.append(opened.enter_context(closing(Bm25Writer(folder / BM25, settings.language))))
            if self.embedder is not None:
                dense = DenseWriter(folder / VECTORS, self.embedder, prefix=settings.passage_prefix)
                self._writers.append(opened.enter_context(closing(dense)))
            self.close = opened.pop_all().close

    def run(self) -> None:
        """Take out what is gone, then bring in what changed. Files in which documents were left out, because their ids
        were taken, are read once more where documents have gone, for these may have been in the way."""
        for entry in self.todo.removed:
            self._remove_unseen(entry)
            self.ledger.drop_file(entry.id)
        files = self.todo.changed
        removed = -1 if self.todo.is_begun else 0
        while True:
            self._read_files(files)
            if self.removed <= removed:
                break
            removed = self.removed
            self.ledger.round += 1  # what these files brought in the round before is no duplicate
            entries = self.ledger.files()
            files = [file for file in self.todo.files if file.name in entries and entries[file.name].shadowed]
        update = {"writing": True, "file": "", "size": 0, "all_done": self._place.all_size}
        self._place = self._place.model_copy(update=update)
        self._last_tick = 0.0
        self.tick()

    def finish(self) -> int:
        """Write everything out. Returns how many passages the index has."""
        return max(writer.finish(self.tick) for writer in self._writers)

    def publish(self, passages: int) -> storage.Manifest:
        """Make what was finished the index."""
        totals = self.ledger.totals()
        self.close()
        manifest = self._manifest(self._generation, totals, passages)
        self._generation.publish(manifest)
        return manifest

    def _save(self) -> None:
        """Copy everything so far, sharing its files, for the next build to begin with if this one is interrupted. The
        copy kept before goes."""
        for writer in self._writers:
            writer.save()
        self.ledger.save()
        copy = storage.Building(self.out, self.todo.base, self._generation.name)
        copy.publish(self._manifest(copy, self.ledger.totals(), self.passages), storage.UNFINISHED)
        storage.clean(self.out, self._generation.name)
        self._saved = time.monotonic()

    def _manifest(self, generation: storage.Building, totals: tuple[int, int], passages: int) -> storage.Manifest:
        documents, content = totals
        embedder = self.target.embedder
        dimension = next((writer.dimension for writer in self._writers if isinstance(writer, DenseWriter)), None)
        return self.target.model_copy(
            update={
                "generation": generation.name,
                "fingerprint": _fingerprint(self.target, content),
                "documents": documents,
                "passages": passages,
                "embedder": embedder.model_copy(update={"dimension": dimension}) if embedder and dimension else None,
                "files": generation.checks(),
            }
        )

    def _read_files(self, files: Sequence[SourceFile]) -> None:
        entries = self.ledger.files()
        done, size = 0, sum(file.size for file in files)
        for number, file in enumerate(files, start=1):
            self._place = Progress(
                files=number, total=len(files), file=file.name, size=file.size, all_size=size, all_done=done
            )
            self._share = 0.0
            self.tick()
            self._read_file(file, entries.get(file.name))
            done += file.size
            if time.monotonic() - self._saved >= self.save_every:
                self._save()

    def _read_file(self, file: SourceFile, before: storage.FileEntry | None) -> None:
        entry = storage.FileEntry(
            id=before.id if before else None,
            name=file.name,
            size=file.size,
            mtime_ns=file.mtime_ns,
            seen_ns=time.time_ns(),
            reader=file.format.version,
            inode=file.inode,
        )
        if before is None:
            self.ledger.put_file(entry)
        self.duplicates[file.name] = []
        self.duplicate_counts[file.name] = 0
        for document in self._documents_of(file, entry, before):
            entry.guessed, entry.partly = entry.guessed or document.guessed, document.partly
            self._take(document, entry, is_whole=file.format.most is not None)
        if before is not None and _is_the_same(file, entry, before):
            entry.skipped, entry.kind = before.skipped, before.kind
            entry.partly, entry.guessed = before.partly, before.guessed
        elif before is not None:
            self._remove_unseen(entry)
        self.ledger.put_file(entry)

    def _documents_of(
        self, file: SourceFile, entry: storage.FileEntry, before: storage.FileEntry | None
    ) -> Iterator[Document]:
        """The documents of a file; none where it holds one, and that is as it was. A broken line of a JSONL corpus ends
        the build; whatever else goes wrong is noted, and the file gives no more."""
        try:
            if file.format.most is None:
                yield from read_documents(file, self._around)
                return
            content = file.read()
            entry.digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            if before is None or not _is_the_same(file, entry, before):
                yield read_file(file, content, self._around)
        except (Unreadable, *PASSING) as error:
            unreadable = Unreadable.of(error)
            entry.skipped, entry.kind, entry.guessed = str(unreadable), unreadable.kind, ""
            if isinstance(error, PASSING):  # it may be gone next time
                entry.seen_ns, entry.digest = 0, ""

    def _take(self, document: Document, entry: storage.FileEntry, *, is_whole: bool) -> None:
        """Take in a document of a file. is_whole: it is all that the file holds."""
        self._met += 1
        self.tick()
        key = document.key
        assert entry.id is not None
        state = self.ledger.enter(key, entry.id, document.content)
        if state in ("taken", "repeated"):
            entry.shadowed = entry.shadowed or state == "taken"
            self.duplicate_counts[entry.name] += 1
            self.duplicates[entry.name] += [document.id] if len(self.duplicates[entry.name]) < LISTED else []
            return
        if state == "known":
            return
        self.ledger.describe(key, document.fields)
        if state == "changed":
            for writer in self._writers:
                writer.remove(key)
        self.read += 1
        pieces = passages_of(document, self._settings.chunk_tokens, self._settings.overlap)
        while together := list(islice(pieces, _PASSAGES_AT_ONCE)):
            passages = [passage for passage, _ in together if self._is_clean(passage)]
            self.passages += len(passages)
            for writer in self._writers:
                writer.add(key, passages)
            self.tick(together[-1][1] / len(document.text) if is_whole else 0.0)

    def _is_clean(self, passage: Passage) -> bool:
        """Whether a passage shares nothing with what must be kept out."""
        text = f"{passage.title}\n{passage.text}"
        ngram = None if self.decontaminate is None else self.decontaminate.overlap(text)
        if ngram is None:
            return True
        self.dropped_count += 1
        if len(self.dropped) < LISTED:
            self.dropped.append(Dropped(id=passage.id, ngram=ngram))
        return False

    def _remove_unseen(self, entry: storage.FileEntry) -> None:
        for key in self.ledger.drop_unseen(entry.id):
            self.removed += 1
            for writer in self._writers:
                writer.remove(key)

    def tick(self, share: float = 0.0, /) -> None:
        """Report the progress, unless it was reported just now. share: of the current file, where it is known."""
        self._share = max(self._share, min(1.0, share))
        if self.watcher is None or time.monotonic() - self._last_tick < _TELL_SECONDS:
            return
        self._last_tick = time.monotonic()
        done = int(self._share * self._place.size)
        now = {"documents": self._met, "passages": self.passages, "done": done}
        try:
            self.watcher(self._place.model_copy(update={**now, "all_done": self._place.all_done + done}))
        except Exception as error:
            raise Stopped(error) from None


def _is_the_same(file: SourceFile, entry: storage.FileEntry, before: storage.FileEntry) -> bool:
    """Whether a file that was read again holds what it held, which is in the index."""
    same = bool(entry.digest) and entry.digest == before.digest
    return same and not before.shadowed and not _reads_better(file, before)


def _fingerprint(target: storage.Manifest, content: int) -> str:
    """Changes with any document, the settings, the terms, the embedder's weights and what was kept out; the same
    however the index came to be."""
    settings = sorted({**target.settings, "embedder_url": None}.items())
    digest = _digest(f"{content}\0{settings}\0{target.decontaminated or ''}")
    if target.embedder is not None and target.embedder.weights is not None:
        digest = _digest(f"{digest}\0{target.embedder.weights}")
    return _digest(f"{digest}\0terms {target.terms}") if target.terms > 1 else digest


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
