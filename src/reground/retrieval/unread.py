"""The files of a corpus that were not read, in words: how many of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from reground.retrieval.settings import IndexReport, Skipped

_WORDS = {
    "image": ("image", "images"), "sound": ("sound recording", "sound recordings"), "video": ("video", "videos"),
    "archive": ("archive", "archives"), "font": ("font", "fonts"), "program": ("program", "programs"),
    "data": ("of binary data", "of binary data"), "old": ("in an old format", "in old formats"),
    "other": ("of another kind", "of other kinds"), "large": ("too large", "too large"),
    "hidden": ("hidden", "hidden"), "link": ("link", "links"), "beside": ("beside the corpus", "beside the corpus"),
    "encrypted": ("encrypted", "encrypted"), "scanned": ("scanned", "scanned"), "binary": ("binary", "binary"),
    "empty": ("without text", "without text"), "damaged": ("damaged", "damaged"),
    "encoding": ("in an unknown encoding", "in unknown encodings"), "failed": ("unreadable", "unreadable"),
}  # fmt: skip
_EXPECTED = frozenset(("hidden", "beside"))
"""Kinds that are left out by rule, of which nobody needs to be told at every question."""
_NAMED = 3


def counted(files: Sequence[Skipped]) -> str:
    """How many files there are, and how many of each kind: "9 files (8 images, 1 too large)"."""
    kinds = Counter(file.kind for file in files)
    said = [f"{count} {_WORDS.get(kind, (kind, kind))[count > 1]}" for kind, count in kinds.most_common()]
    return f"{len(files)} file{'s' if len(files) > 1 else ''} ({', '.join(said)})"


def line(report: IndexReport) -> str:
    """One line about the files that were not read: their names where they are few, else how many there are of each
    kind, and how to have them listed. "" where all were read but hidden ones."""
    told = [file for file in report.skipped if file.kind not in _EXPECTED]
    if not told:
        return ""
    if len(told) <= _NAMED:
        named = ", ".join(f"{file.path} ({file.why})" for file in told)
        return f"not read: {named}"
    return f"not read: {counted(told)}; list them: {_command(report)}"


def _command(report: IndexReport) -> str:
    language = f" --language {report.language}" if report.language != "en" else ""
    return f"reground index {quote(str(report.source or 'CORPUS'))}{language} --report"
