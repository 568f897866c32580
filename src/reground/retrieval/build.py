"""One pass over a corpus that brings an index up to date with it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, Protocol

from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.retrieval.chunking import chunk
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.documents import PASSING, Document, SourceFile, format_of, read_documents, read_file
from reground.retrieval.encodings import Unreadable
from reground.retrieval.filetypes import CODE_SUFFIXES
from reground.retrieval.reading.pdf import could_read
from reground.retrieval.reading.result import Circumstances
from reground.retrieval.settings import Dropped, IndexSettings, Progress
from reground.retrieval.storage import FileEntry, Ledger

_LISTED = 1000  # duplicates and dropped passages that a report names
_RACY_NS = 2_000_000_000  # a file changed this shortly before it was read may change again under the same time stamp
_TELL_SECONDS = 0.1  # between two reports of progress, each of which is a chance to stop
_PASSAGES_AT_ONCE = 64  # of one document, passed on together

Watcher = Callable[[Progress], None]


class PassageWriter(Protocol):
    """Where passages are kept. Nothing counts before `finish`."""

    def add(self, key: int, passages: Sequence[Passage]) -> None:
        """Add a document's passages."""
        ...

    def remove(self, key: int) -> None:
        """Remove a document's passages."""
        ...

    def save(self) -> None:
        """Write out what came so far, and be ready for more."""
        ...

    def finish(self, tick: Callable[[], None]) -> int:
        """Write everything out. Returns how many passages there are now. `tick` is called now and then meanwhile."""
        ...

    def close(self) -> None:
        """Let go of what is open, finished or not."""
        ...


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

    What the watcher raises ends the build. It is called about ten times a second, also inside a large document. Between
    two files, every `save_every` seconds, everything so far is written out and `on_save` is called.
    """

    def __init__(
        self,
        ledger: Ledger,
        writers: Sequence[PassageWriter],
        settings: IndexSettings,
        *,
        decontaminate: Decontaminator | None,
        watcher: Watcher | None,
        save_every: float,
        on_save: Callable[[], None],
    ) -> None:
        self.read = 0
        self.removed = 0
        self.passages = 0
        self.duplicates: list[str] = []
        self.duplicate_count = 0
        self.dropped: list[Dropped] = []
        self.dropped_count = 0
        self._ledger = ledger
        self._writers = writers
        self._settings = settings
        self._decontaminate = decontaminate
        self._watcher = watcher
        self._save_every = save_every
        self._on_save = on_save
        self._saved = time.monotonic()
        self._round = int(ledger.fact("round") or 0) + 1
        self._content = int(ledger.fact("content") or 0)
        self._documents = 0
        self._shadowed = False
        self._waiting: list[tuple[SourceFile, int]] = []  # shadowed, and how many documents had been removed by then
        self._again = False
        self._place = Progress()
        self._share = 0.0  # of the present file, as far as it is known
        self._told = 0.0
        self._around = Circumstances(tick=self._tick_of_reader, language=settings.language)

    def run(self, changed: Sequence[SourceFile], gone: Sequence[FileEntry]) -> None:
        """Take out what is gone, then bring in what changed.

        Files whose documents were shadowed come last, when the document that was in their way may have left; those that
        it leaves later are read again.
        """
        for entry in gone:
            self._remove_unseen(entry.id)
            self._ledger.drop_file(entry)
        entries = self._ledger.files()
        order = sorted(changed, key=lambda file: (file.name in entries and entries[file.name].shadowed, file.name))
        self._files(order, entries)
        late = [file for file, removed in self._waiting if removed < self.removed]
        if late:
            self._again = True
            self._round += 1  # what these files brought in the round before is no duplicate
            self._files(late, {})
        whole = sum(file.size for file in order)
        self._place = Progress(files=len(order), total=len(order), all_size=whole, all_done=whole, writing=True)
        self._tell()
        self._describe()

    def _files(self, order: Sequence[SourceFile], entries: dict[str, FileEntry]) -> None:
        whole, behind = sum(file.size for file in order), 0
        for number, file in enumerate(order, start=1):
            self._place = Progress(
                files=number, total=len(order), file=file.name, size=file.size, all_size=whole, all_done=behind
            )
            self._share = 0.0
            self.tick()
            self._file(file, entries.get(file.name))
            if self._shadowed:
                self._waiting.append((file, self.removed))
            behind += file.size
            if time.monotonic() - self._saved >= self._save_every:
                self._save()

    def _save(self) -> None:
        for writer in self._writers:
            writer.save()
        self._describe()
        self._ledger.save()
        self._on_save()
        self._saved = time.monotonic()

    def _describe(self) -> None:
        self._ledger.state("round", str(self._round))
        self._ledger.state("content", str(self._content))

    def fingerprint(self, weights: str | None) -> str:
        """Changes with any document, the settings, the terms, the embedder's weights and what was kept out; the same
        however the index came to be."""
        looked_for = self._decontaminate.fingerprint if self._decontaminate else ""
        settings = {**self._settings.as_record(), "embedder_url": None}
        terms = self._settings.terms
        parts = [f"{self._content}\0{sorted(settings.items())}\0{looked_for}", weights, f"terms {terms}"]
        digest = ""
        for part in parts[: 3 if terms > 1 else 2]:
            if part is not None:
                text = f"{digest}\0{part}" if digest else part
                digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return digest

    def _file(self, file: SourceFile, before: FileEntry | None) -> None:
        entry = FileEntry(
            id=before.id if before else self._ledger.put_file(file.name),
            name=file.name,
            size=file.size,
            mtime_ns=file.mtime_ns,
            seen_ns=time.time_ns(),
            reader=format_of(file.typed).version,
        )
        self._shadowed = is_known = False
        try:
            if file.holds_several:
                self._several(file, entry)
            else:
                is_known = self._single(file, entry, before)
        except _Stopped as stopped:
            raise stopped.why from None
        if not is_known:
            self._remove_unseen(entry.id)
        entry.shadowed = self._shadowed
        self._ledger.describe_file(entry)

    def _single(self, file: SourceFile, entry: FileEntry, before: FileEntry | None) -> bool:
        """Take in a file of one document. Returns whether it is as it was.

        Whatever goes wrong with the file is a reason to go on without it, and no more.
        """
        try:
            content = file.read()
            entry.digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            if before and before.digest == entry.digest and not before.shadowed and not _reads_better(file, before):
                entry.skipped, entry.kind = before.skipped, before.kind
                entry.partly, entry.guessed = before.partly, before.guessed
                return True
            document = read_file(file, content, self._around)
        except (DataError, *PASSING) as error:
            _skip(entry, error)
            return False
        entry.partly, entry.guessed = document.partly, document.guessed
        self._document(document, entry.id, is_whole=True)
        return False

    def _several(self, file: SourceFile, entry: FileEntry) -> None:
        """Take in a file of several documents. A broken line of a JSONL corpus ends the build."""
        documents = read_documents(file, self._around)
        while True:
            try:
                document = next(documents, None)
            except (Unreadable, *PASSING) as error:
                entry.guessed = ""
                _skip(entry, error)
                return
            if document is None:
                return
            entry.guessed = entry.guessed or document.guessed
            self._document(document, entry.id)

    def _document(self, document: Document, file: int, *, is_whole: bool = False) -> None:
        """Take in a document of a file. is_whole: it is all that the file holds."""
        self._documents += 1
        self.tick()
        key, content = document.key, document.content
        if not self._ledger.add(key, file, content, self._round):
            owner, old, round_ = self._ledger.document(key)
            if owner != file or round_ == self._round:
                self._duplicate(document.id, shadowed=owner != file)
                return
            self._ledger.see(key, content, self._round)
            if old == content:
                return
            self._content = (self._content - old) % 2**64
            for writer in self._writers:
                writer.remove(key)
        elif self._again:
            self._came_forward(document.id)
        self._content = (self._content + content) % 2**64
        self.read += 1
        pieces = passages_of(document, self._settings.chunk_tokens, self._settings.overlap)
        while together := list(islice(pieces, _PASSAGES_AT_ONCE)):
            passages = self._clean([piece.passage for piece in together])
            self.passages += len(passages)
            for writer in self._writers:
                writer.add(key, passages)
            self.tick(together[-1].end / len(document.text) if is_whole else 0.0)

    def _clean(self, passages: list[Passage]) -> list[Passage]:
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

    def _duplicate(self, id_: str, *, shadowed: bool) -> None:
        self._shadowed = self._shadowed or shadowed
        if self._again:
            return  # it was counted when its file was first read
        self.duplicate_count += 1
        if len(self.duplicates) < _LISTED:
            self.duplicates.append(id_)

    def _came_forward(self, id_: str) -> None:
        """A document that counted as a duplicate is none any more."""
        self.duplicate_count -= 1
        if id_ in self.duplicates:
            self.duplicates.remove(id_)

    def _remove_unseen(self, file: int) -> None:
        for key, content in self._ledger.unseen(file, self._round):
            self.removed += 1
            self._content = (self._content - content) % 2**64
            for writer in self._writers:
                writer.remove(key)
        self._ledger.drop_unseen(file, self._round)

    def tick(self, share: float = 0.0, /) -> None:
        """Say how far it is, if that was not said just now. `share`: of the present file, where it is known."""
        self._share = max(self._share, min(1.0, share))
        if time.monotonic() - self._told >= _TELL_SECONDS:
            self._tell()

    def _tick_of_reader(self, share: float = 0.0, /) -> None:
        """`tick` for a reader, which would take an ordinary error for one of its file."""
        try:
            self.tick(share)
        except Exception as error:
            raise _Stopped(error) from None

    def _tell(self) -> None:
        self._told = time.monotonic()
        if self._watcher is not None:
            done = int(self._share * self._place.size)
            now = {"documents": self._documents, "passages": self.passages, "done": done}
            self._watcher(self._place.model_copy(update={**now, "all_done": self._place.all_done + done}))


class _Stopped(BaseException):
    """What the watcher raised while a file was being read."""

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


def _reads_better(file: SourceFile, entry: FileEntry) -> bool:
    """Whether the same file may give another text by now."""
    return entry.reader != format_of(file.typed).version or could_read(entry.skipped or entry.partly)


def plan(
    files: Sequence[SourceFile], entries: dict[str, FileEntry], *, same_folder: bool, is_begun: bool = False
) -> tuple[list[SourceFile], list[FileEntry]]:
    """The files that have to be read, and those that are gone.

    A file is as it was if its size and its time of change are, and that time was not just before it was read; in
    another corpus folder (`same_folder` False) nothing is taken for granted. Its reader must be of the same version.
    is_begun: a build is gone on with that may have removed what shadowed a file.
    """
    names = {file.name for file in files}
    gone = [entry for name, entry in entries.items() if name not in names]
    changed = [file for file in files if not (same_folder and _is_as_it_was(file, entries.get(file.name)))]
    if changed or gone or is_begun:
        listed = {file.name for file in changed}
        changed += [f for f in files if f.name not in listed and f.name in entries and entries[f.name].shadowed]
    return changed, gone


def _is_as_it_was(file: SourceFile, entry: FileEntry | None) -> bool:
    if entry is None or _reads_better(file, entry) or (file.size, file.mtime_ns) != (entry.size, entry.mtime_ns):
        return False
    return file.mtime_ns < entry.seen_ns - _RACY_NS
