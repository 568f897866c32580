"""One pass over a corpus that brings an index up to date with it."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain, islice
from typing import Any, NamedTuple

from reground.core.evidence import Passage
from reground.retrieval.bm25 import Bm25Writer
from reground.retrieval.chunking import chunk
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.dense import DenseWriter
from reground.retrieval.documents import PASSING, Document, SourceFile, format_of, read_documents, read_file
from reground.retrieval.embedders import Embedder
from reground.retrieval.encodings import Unreadable
from reground.retrieval.filetypes import CODE_SUFFIXES
from reground.retrieval.reading.pdf import could_read
from reground.retrieval.reading.result import Circumstances
from reground.retrieval.settings import Dropped, IndexSettings, Progress
from reground.retrieval.storage import Building, FileEntry, Ledger, Manifest

BM25, VECTORS, LEDGER = "bm25", "vectors", "ledger.sqlite"
"""The parts of a generation."""

_LISTED = 1000  # duplicates and dropped passages that a report names
_RACY_NS = 2_000_000_000  # a file changed this shortly before it was read may change again under the same time stamp
_TELL_SECONDS = 0.1  # between two reports of progress, each of which is a chance to stop
_PASSAGES_AT_ONCE = 64  # of one document, passed on together

Watcher = Callable[[Progress], None]


class Piece(NamedTuple):
    """A passage, and where it ends in its document's text, in characters."""

    passage: Passage
    end: int


def passages_of(document: Document, size: int, overlap: int) -> Iterator[Piece]:
    """A document's passages. Its only passage has its id; of several the second is `id#2`."""
    is_code = document.source.lower().endswith(CODE_SUFFIXES)
    pieces = chunk(document.text, size, overlap, is_code=is_code)
    first = list(islice(pieces, 2))
    for number, piece in enumerate(chain(first, pieces), start=1):
        id_ = document.id if len(first) == 1 else f"{document.id}#{number}"
        text = document.text[piece.start : piece.end]
        yield Piece(Passage(id=id_, title=document.title, text=text, url=document.url), piece.end)


class Build:
    """Reads the files that changed and passes on what they hold; afterwards it holds the counts of what it did.

    What the watcher raises ends the build, as `Stopped`. It is called about ten times a second, also inside a large
    document. Between two files, every `save_every` seconds, everything so far is written out and copied for a build
    that goes on after this one was interrupted. wanted: the manifest, as far as it is known before.
    """

    def __init__(
        self,
        generation: Building,
        wanted: Manifest,
        embedder: Embedder | None,
        decontaminate: Decontaminator | None,
        watcher: Watcher | None,
        save_every: float,
    ) -> None:
        self.read = 0
        self.removed = 0
        self.passages = 0
        self.dropped: list[Dropped] = []
        self.dropped_count = 0
        self._duplicates: dict[str, list[str]] = {}  # of each file
        self._duplicate_counts: Counter[str] = Counter()
        self._generation = generation
        self._wanted = wanted
        self._settings = settings = IndexSettings(**wanted.settings)  # type: ignore[arg-type]
        self._decontaminate = decontaminate
        self._watcher = watcher
        self._save_every = save_every
        self._saved = time.monotonic()
        self._met = 0  # documents
        self._place = Progress()
        self._share = 0.0  # of the present file, as far as it is known
        self._told = 0.0
        self._around = Circumstances(tick=self.tick, language=settings.language)
        generation.start(generation.base)
        folder = generation.folder
        with ExitStack() as opened:
            self.ledger = opened.enter_context(closing(Ledger(folder / LEDGER)))
            self._writers: list[Bm25Writer | DenseWriter] = []
            if settings.kind != "dense":
                self._writers.append(opened.enter_context(closing(Bm25Writer(folder / BM25, settings.language))))
            if embedder is not None:
                dense = DenseWriter(folder / VECTORS, embedder, prefix=settings.passage_prefix)
                self._writers.append(opened.enter_context(closing(dense)))
            self.close = opened.pop_all().close
        self._totals = self.ledger.totals()

    def run(self, plan: Plan) -> None:
        """Take out what is gone, then bring in what changed. Files in which documents were left out, because their ids
        were taken, are read once more where documents have gone, for these may have been in the way."""
        for entry in plan.gone:
            self._remove_unseen(entry)
            self.ledger.drop_file(entry.id)
        files = list(plan.changed)
        removed = -1 if plan.is_begun else 0
        while True:
            self._read_files(files)
            if self.removed <= removed:
                break
            removed = self.removed
            self.ledger.round += 1  # what these files brought in the round before is no duplicate
            entries = self.ledger.files()
            files = [file for file in plan.files if file.name in entries and entries[file.name].shadowed]
        written = {"writing": True, "file": "", "size": 0, "all_done": self._place.all_size}
        self._place = self._place.model_copy(update=written)
        self._share = 0.0
        self._tell()

    def _save(self) -> None:
        for writer in self._writers:
            writer.save()
        self._totals = self.ledger.totals()
        self.ledger.save()
        self._generation.keep(lambda copy: self.manifest(copy, self.passages))
        self._saved = time.monotonic()

    def finish(self) -> int:
        """Write everything out. Returns how many passages the index has."""
        self._totals = self.ledger.totals()
        return max(writer.finish(self.tick) for writer in self._writers)

    def manifest(self, generation: Building, passages: int) -> Manifest:
        """The manifest of a generation whose parts were written out just now."""
        documents, content = self._totals
        embedder = self._wanted.embedder
        dimension = next((writer.dimension for writer in self._writers if isinstance(writer, DenseWriter)), None)
        return self._wanted.model_copy(
            update={
                "generation": generation.name,
                "fingerprint": _fingerprint(self._wanted, content),
                "documents": documents,
                "passages": passages,
                "embedder": embedder.model_copy(update={"dimension": dimension}) if embedder and dimension else None,
                "files": generation.checks(),
            }
        )

    def report(self) -> dict[str, Any]:
        """The counts, as `IndexReport` has them."""
        duplicates = (id_ for ids in self._duplicates.values() for id_ in ids)
        return {
            "read": self.read,
            "removed": self.removed,
            "duplicates": tuple(islice(duplicates, _LISTED)),
            "duplicate_count": self._duplicate_counts.total(),
            "dropped": tuple(self.dropped),
            "dropped_count": self.dropped_count,
        }

    def _read_files(self, files: Sequence[SourceFile]) -> None:
        entries = self.ledger.files()
        place = Progress(total=len(files), all_size=sum(file.size for file in files))
        for number, file in enumerate(files, start=1):
            self._place = place.model_copy(update={"files": number, "file": file.name, "size": file.size})
            self._share = 0.0
            self.tick()
            self._read_file(file, entries.get(file.name))
            place = place.model_copy(update={"all_done": place.all_done + file.size})
            if time.monotonic() - self._saved >= self._save_every:
                self._save()

    def _read_file(self, file: SourceFile, before: FileEntry | None) -> None:
        entry = FileEntry(
            id=before.id if before else None,
            name=file.name,
            size=file.size,
            mtime_ns=file.mtime_ns,
            seen_ns=time.time_ns(),
            reader=format_of(file.typed).version,
        )
        if before is None:
            self.ledger.put_file(entry)
        self._duplicates[file.name] = []
        self._duplicate_counts[file.name] = 0
        documents = self._documents_of(file, entry, before)
        while True:
            try:
                document = next(documents, None)
            except (Unreadable, *PASSING) as error:
                entry.guessed = ""
                _skip(entry, error)
                break
            if document is None:
                break
            entry.guessed, entry.partly = entry.guessed or document.guessed, document.partly
            self._take(document, entry, is_whole=not file.holds_several)
        if before is not None and _is_the_same(file, entry, before):
            entry.skipped, entry.kind = before.skipped, before.kind
            entry.partly, entry.guessed = before.partly, before.guessed
        elif before is not None:
            self._remove_unseen(entry)
        self.ledger.put_file(entry)

    def _documents_of(self, file: SourceFile, entry: FileEntry, before: FileEntry | None) -> Iterator[Document]:
        """The documents of a file; none where it holds one, and that is as it was. A broken line of a JSONL corpus ends
        the build; whatever else goes wrong is a reason to go on without the file."""
        if file.holds_several:
            yield from read_documents(file, self._around)
            return
        content = file.read()
        entry.digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if before is None or not _is_the_same(file, entry, before):
            yield read_file(file, content, self._around)

    def _take(self, document: Document, entry: FileEntry, *, is_whole: bool = False) -> None:
        """Take in a document of a file. is_whole: it is all that the file holds."""
        self._met += 1
        self.tick()
        key, content = document.key, document.content
        assert entry.id is not None
        known = self.ledger.enter(key, entry.id, content)
        if known is not None:
            if known.file != entry.id or known.seen:
                entry.shadowed = entry.shadowed or known.file != entry.id
                self._duplicate_counts[entry.name] += 1
                if len(self._duplicates[entry.name]) < _LISTED:
                    self._duplicates[entry.name].append(document.id)
                return
            self.ledger.see(key, content)
            if known.content == content:
                return
            for writer in self._writers:
                writer.remove(key)
        self.read += 1
        pieces = passages_of(document, self._settings.chunk_tokens, self._settings.overlap)
        while together := list(islice(pieces, _PASSAGES_AT_ONCE)):
            passages = self._clean([piece.passage for piece in together])
            self.passages += len(passages)
            for writer in self._writers:
                writer.add(key, passages)
            self.tick(together[-1].end / len(document.text) if is_whole else 0.0)

    def _clean(self, passages: list[Passage]) -> list[Passage]:
        """The passages that share nothing with what must be kept out."""
        if self._decontaminate is None:
            return passages
        clean = []
        for passage in passages:
            ngram = self._decontaminate.overlap(f"{passage.title}\n{passage.text}")
            if ngram is None:
                clean.append(passage)
                continue
            self.dropped_count += 1
            if len(self.dropped) < _LISTED:
                self.dropped.append(Dropped(id=passage.id, ngram=ngram))
        return clean

    def _remove_unseen(self, entry: FileEntry) -> None:
        for key in self.ledger.drop_unseen(entry.id):
            self.removed += 1
            for writer in self._writers:
                writer.remove(key)

    def tick(self, share: float = 0.0, /) -> None:
        """Say how far it is, if that was not said just now. `share`: of the present file, where it is known."""
        self._share = max(self._share, min(1.0, share))
        if time.monotonic() - self._told >= _TELL_SECONDS:
            try:
                self._tell()
            except Exception as error:
                raise Stopped(error) from None

    def _tell(self) -> None:
        self._told = time.monotonic()
        if self._watcher is not None:
            done = int(self._share * self._place.size)
            now = {"documents": self._met, "passages": self.passages, "done": done}
            self._watcher(self._place.model_copy(update={**now, "all_done": self._place.all_done + done}))


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


class Stopped(BaseException):
    """What the watcher raised, which a reader would take for an error of its file if it were an ordinary one."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


def _skip(entry: FileEntry, error: Exception) -> None:
    """Note in one line why a file gives no document, or no more. What lies outside of it may be gone next time."""
    reason = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        reason = f"cannot be read: {error.strerror}"
    elif isinstance(error, MemoryError):
        reason = "cannot be read: it needs more memory than there is"
    elif not isinstance(error, Unreadable):
        reason = f"cannot be read: {type(error).__name__}{': ' if reason else ''}{reason}"
    entry.skipped, entry.kind = reason, error.kind if isinstance(error, Unreadable) else "failed"
    if isinstance(error, PASSING):
        entry.seen_ns, entry.digest = 0, ""


class Plan(NamedTuple):
    """What a build has to do: all files of the corpus, those to be read, and those that are gone.

    is_begun: a build is gone on with that may have removed what was in the way of documents.
    """

    files: Sequence[SourceFile]
    changed: Sequence[SourceFile]
    gone: Sequence[FileEntry] = ()
    is_begun: bool = False


def plan(files: Sequence[SourceFile], entries: dict[str, FileEntry], *, same_folder: bool, is_begun: bool) -> Plan:
    """What has to be done for an index that holds `entries`.

    A file is as it was if its size and its time of change are, and that time was not just before it was read; in
    another corpus folder (`same_folder` False) nothing is taken for granted. Its reader must be of the same version.
    """
    names = {file.name for file in files}
    gone = [entry for name, entry in entries.items() if name not in names]
    changed = []
    for file in files:
        entry = entries.get(file.name)
        if (
            entry is None
            or not same_folder
            or (file.size, file.mtime_ns) != (entry.size, entry.mtime_ns)
            or file.mtime_ns >= entry.seen_ns - _RACY_NS
            or _reads_better(file, entry)
        ):
            changed.append(file)
    return Plan(files, changed, gone, is_begun)


def _is_the_same(file: SourceFile, entry: FileEntry, before: FileEntry) -> bool:
    """Whether a file that was read again holds what it held, which is in the index."""
    return (
        len(entry.digest) > 0
        and entry.digest == before.digest
        and not before.shadowed
        and not _reads_better(file, before)
    )


def _reads_better(file: SourceFile, entry: FileEntry) -> bool:
    """Whether the same file may give another text by now."""
    return entry.reader != format_of(file.typed).version or could_read(entry.skipped or entry.partly)
