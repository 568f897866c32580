"""`reground index`: make an index of documents, or bring it up to date."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from reground.app.cli.console import consoles, plural, print_json
from reground.app.cli.display import plain
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.documents import cached_index_path, stoppable
from reground.app.options import Index
from reground.core.errors import ConfigurationError
from reground.core.files import expanded
from reground.evaluation.tasks import load_task
from reground.retrieval.decontaminate import Decontaminator
from reground.retrieval.documents import counted, line
from reground.retrieval.embedders import create_embedder
from reground.retrieval.index import build_index
from reground.retrieval.settings import IndexReport, IndexSettings, preset
from reground.retrieval.storage import holds_index

_OWN = ("kind", "embedder", "chunk_tokens", "overlap")
"""Options of an index that `ask` does not keep."""
_DROPPED = 20
"""The most dropped passages that are printed."""


@flattened("source", "out", "include", "exclude", "retrieval", "language", "chunk_tokens", "report", "as_json", "quiet")
def index(options: Index, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Index documents, or update an index. An update reads only what has changed.

    Example:  reground index docs/ --out docs.idx --chunk-tokens 200
    """
    settings, out = _settings(options)
    embedder = None
    if settings.kind != "bm25":
        embedder = create_embedder(settings.embedder or "", base_url=settings.embedder_url, batch=options.batch)
    cleaner = None
    if options.decontaminate:
        tasks = (load_task(name, options.data) for name in options.decontaminate)
        cleaner = Decontaminator([text for task in tasks for text in task.solutions()])
    how = partial(build_index, decontaminate=cleaner, embedder=embedder, globs=options.globs)
    with Progress(visible=not quiet) as progress:
        report = asyncio.run(
            stoppable(lambda tell: how(options.source, out, settings, progress=tell), progress.on_index)
        )
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _show(report, whole=options.report)


def _settings(options: Index) -> tuple[IndexSettings, Path]:
    """How the index is made and where: as the options say, or without a place the one that `ask` keeps."""
    language = options.language or IndexSettings.language
    if holds_index(expanded(options.source)):  # its own files would be read as documents
        raise ConfigurationError(f"{options.source} is an index: give the documents that it was made of")
    if options.out is None:
        if not options.report:
            raise ConfigurationError("give a folder for the index: --out INDEX (or --report, to list what is not read)")
        if any(getattr(options, name) != getattr(Index, name) for name in _OWN):
            raise ConfigurationError("--kind, --embedder and --chunk-tokens need an index of its own: --out")
        settings = replace(preset(options.retrieval or "bm25").settings, language=language)
        return settings, cached_index_path(expanded(options.source), settings, options.globs)
    kind, embedder = options.kind, options.embedder
    if options.retrieval is not None:
        choice = preset(options.retrieval).settings
        if kind not in ("bm25", choice.kind):
            raise ConfigurationError(f"--retrieval {options.retrieval} makes a {choice.kind} index: leave out --kind")
        kind, embedder = choice.kind, embedder or choice.embedder
    settings = IndexSettings(
        kind=cast(Any, kind),
        language=language,
        chunk_tokens=options.chunk_tokens,
        overlap=min(options.overlap, options.chunk_tokens // 4),
        embedder=embedder,
        embedder_url=options.model_options.base_url,
    )
    return settings, options.out


def _show(report: IndexReport, *, whole: bool) -> None:
    """Print what was indexed, and what was not read: every file with its reason, or only their number."""
    lines = [
        (f"{plural(report.passages, 'passage')} from {plural(report.documents, 'document')} in {report.path}", ""),
        (
            f"({plural(report.read, 'document')} read, {report.kept} unchanged, {report.removed} removed, "
            f"{report.seconds:.1f} s, at most {report.memory / 1e6:.0f} MB of memory)",
            "dim",
        ),
    ]
    if whole:
        lines += [(f"not read  {skipped.path}: {skipped.why}", "") for skipped in report.skipped]
        lines += [(f"in part   {part.path}: {part.why}", "") for part in report.partly]
        lines.append((f"not read: {counted(report.skipped)}" if report.skipped else "every file was read", ""))
    elif unread := line(report):
        lines.append((unread, "yellow"))
    lines += [(text, "yellow") for text in report.notes]
    if report.duplicate_count:
        example = f"{report.duplicates[0]}, ..."
        lines.append((f"{report.duplicate_count} documents had an id that was taken: {example}", "yellow"))
    if report.dropped_count:
        lines.append((f"dropped {report.dropped_count} passages that overlap a benchmark's solutions:", ""))
        lines += [(f"  {dropped.id}: {dropped.ngram}", "dim") for dropped in report.dropped[:_DROPPED]]
    if report.dropped_count > _DROPPED:
        lines.append((f"  ... and {report.dropped_count - _DROPPED} more; --json lists a thousand", ""))
    for text, style in lines:
        consoles()[0].print(plain(text, style), soft_wrap=True)
