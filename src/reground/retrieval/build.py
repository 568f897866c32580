"""One pass over a corpus that brings an index up to date with it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from reground.core.evidence import Passage
from reground.retrieval.chunking import chunk
from reground.retrieval.documents import Document, SourceFile
from reground.retrieval.ledger import FileEntry, Ledger
from reground.retrieval.encodings import Unreadable
from reground.retrieval.readers import read_file, read_jsonl
from reground.retrieval.settings import Dropped, IndexSettings, Progress

_LISTED = 1000  # duplicates and dropped passages that a report names
_RACY_NS = 2_000_000_000  # a file changed this shortly before it was read may change again under the same time stamp
_PROGRESS_EVERY = 500

Watcher = Callable[[Progress], None]


class PassageWriter(Protocol):
    """Where passages are kept. Nothing counts before `finish`."""

    def add(self, key: int, passages: Sequence[Passage]) -> None:
        """Add a document's passages."""
        ...

    def remove(self, key: int) -> None:
        """Remove a document's passages."""
        ...

    def finish(self) -> int:
        """Write everything out. Returns how many passages there are now."""
        ...

    def close(self) -> None:
        """Let go of what is open, finished or not."""
        ...


class Contamination(Protocol):
    """Tells what a corpus must not hold; see `decontaminate`."""

    @property
    def fingerprint(self) -> str:
        """Changes with what is looked for."""
        ...

    def overlap(self, text: str) -> str | None:
        """The n-gram that the text shares with what it must not hold."""
        ...


def passages_of(document: Document, size: int, overlap: int) -> list[Passage]:
    """A document's passages. Its only passage has its id; of several the second is `id#2`."""
    pieces = chunk(document.text, size, overlap)
    ids = [document.id] if len(pieces) == 1 else [f"{document.id}#{number}" for number in range(1, len(pieces) + 1)]
    return [
        Passage(id=id_, title=document.title, text=document.text[piece.start : piece.end], url=document.url)
        for id_, piece in zip(ids, pieces, strict=True)
    ]


class Build:
    """Reads the files that changed and passes on what they hold; afterwards it holds the counts of what it did."""

    def __init__(
        self,
        ledger: Ledger,
        writers: Sequence[PassageWriter],
        settings: IndexSettings,
        *,
        contamination: Contamination | None = None,
        watcher: Watcher | None = None,
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
        self._contamination = contamination
        self._watcher = watcher
        self._round = int(ledger.fact("round") or 0) + 1
        self._content = int(ledger.fact("content") or 0)
        self._documents = 0
        self._shadowed = False
        self._place = (0, 0, "")

    def run(self, changed: Sequence[SourceFile], gone: Sequence[FileEntry]) -> None:
        """Take out what is gone, then bring in what changed.

        Files whose documents were shadowed come last, when the document that was in their way may have left.
        """
        for entry in gone:
            self._remove_unseen(entry.id)
            self._ledger.drop_file(entry)
        known = self._ledger.files()
        order = sorted(changed, key=lambda file: (file.name in known and known[file.name].shadowed, file.name))
        for number, file in enumerate(order, start=1):
            self._place = (number, len(order), file.name)
            self._file(file, known.get(file.name))
        self._tell()
        self._ledger.state("round", str(self._round))
        self._ledger.state("content", str(self._content))

    def fingerprint(self) -> str:
        """Changes with any document, the settings and what was kept out; the same however the index came to be."""
        looked_for = self._contamination.fingerprint if self._contamination else ""
        settings = {**self._settings.as_record(), "embedder_url": None}
        said = f"{self._content}\0{sorted(settings.items())}\0{looked_for}"
        return hashlib.blake2b(said.encode(), digest_size=6).hexdigest()

    def _file(self, file: SourceFile, entry: FileEntry | None) -> None:
        number = entry.id if entry else self._ledger.put_file(file.name)
        self._shadowed = False
        seen = time.time_ns()
        digest = skipped = ""
        if file.is_jsonl:
            for document in read_jsonl(file):
                self._document(document, number)
            self._remove_unseen(number)
        else:
            try:
                content = file.path.read_bytes()
                digest = hashlib.blake2b(content, digest_size=16).hexdigest()
                if entry is None or entry.digest != digest or entry.shadowed:
                    self._document(read_file(file, content), number)
                    self._remove_unseen(number)
                else:
                    skipped = entry.skipped
            except (OSError, Unreadable) as error:
                skipped = error.strerror or "cannot be read" if isinstance(error, OSError) else str(error)
                self._remove_unseen(number)
        self._ledger.describe_file(
            FileEntry(number, file.name, file.size, file.mtime_ns, seen, digest, skipped, self._shadowed)
        )

    def _document(self, document: Document, file: int) -> None:
        self._documents += 1
        if self._documents % _PROGRESS_EVERY == 0:
            self._tell()
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
        self._content = (self._content + content) % 2**64
        self.read += 1
        passages = self._clean(passages_of(document, self._settings.chunk_tokens, self._settings.overlap))
        self.passages += len(passages)
        for writer in self._writers:
            writer.add(key, passages)

    def _clean(self, passages: list[Passage]) -> list[Passage]:
        if self._contamination is None:
            return passages
        kept = []
        for passage in passages:
            ngram = self._contamination.overlap(f"{passage.title}\n{passage.text}")
            if ngram is None:
                kept.append(passage)
                continue
            self.dropped_count += 1
            if len(self.dropped) < _LISTED:
                self.dropped.append(Dropped(id=passage.id, ngram=ngram))
        return kept

    def _duplicate(self, id_: str, *, shadowed: bool) -> None:
        self._shadowed = self._shadowed or shadowed
        self.duplicate_count += 1
        if len(self.duplicates) < _LISTED:
            self.duplicates.append(id_)

    def _remove_unseen(self, file: int) -> None:
        for key, content in self._ledger.unseen(file, self._round):
            self.removed += 1
            self._content = (self._content - content) % 2**64
            for writer in self._writers:
                writer.remove(key)
        self._ledger.drop_unseen(file, self._round)

    def _tell(self) -> None:
        if self._watcher is not None:
            number, total, name = self._place
            self._watcher(
                Progress(documents=self._documents, passages=self.passages, files=number, total=total, file=name)
            )


def plan(
    files: Sequence[SourceFile], known: dict[str, FileEntry], *, same_folder: bool
) -> tuple[list[SourceFile], list[FileEntry]]:
    """The files that have to be read, and those that are gone.

    A file is as it was if its size and its time of change are, and that time was not just before it was read; in
    another corpus folder (`same_folder` False) nothing is taken for granted.
    """
    names = {file.name for file in files}
    gone = [entry for name, entry in known.items() if name not in names]
    changed = [file for file in files if not (same_folder and _is_as_it_was(file, known.get(file.name)))]
    if changed or gone:
        listed = {file.name for file in changed}
        changed += [f for f in files if f.name not in listed and f.name in known and known[f.name].shadowed]
    return changed, gone


def _is_as_it_was(file: SourceFile, entry: FileEntry | None) -> bool:
    if entry is None or (file.size, file.mtime_ns) != (entry.size, entry.mtime_ns):
        return False
    return file.mtime_ns < entry.seen_ns - _RACY_NS
