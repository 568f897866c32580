"""`reground index`: make an index of documents, or bring it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Index, Json

if TYPE_CHECKING:
    from reground.retrieval.decontaminate import Decontaminator
    from reground.retrieval.settings import IndexReport, IndexSettings

_OWN = ("kind", "embedder", "chunk_tokens", "overlap")
"""Options of an index that `ask` does not keep."""


@flattened
def index(order: Index, output: Json, config: ConfigFile = None) -> None:
    """Index documents, or update an index. An update reads only what has changed.

    Example:  reground index docs/ --out docs.idx --chunk-tokens 400
    """
    from reground.app.cli.progress import AskProgress
    from reground.app.documents import stoppable
    from reground.retrieval.index import build_index
    from reground.retrieval.settings import Progress

    settings, out = _settings(order)
    cleaner = _decontaminator(order.decontaminate, order.data) if order.decontaminate else None
    console, err = common.consoles()

    def work(watch: Callable[[Progress], None]) -> IndexReport:
        return build_index(order.source, out, settings, progress=watch, decontaminate=cleaner)

    with AskProgress(err, shown=True) as progress:
        report = asyncio.run(stoppable(work, progress.on_index))
    if output.as_json:
        common.print_json(report.model_dump(mode="json"))
    else:
        _show_report(console, report, whole=order.report)


def _settings(order: Index) -> tuple[IndexSettings, Path]:
    """How the index is made and where: as the options say, or without a place the one that `ask` keeps."""
    from reground.app.documents import cached_index_path, default_settings, is_index
    from reground.core.errors import ConfigurationError
    from reground.core.paths import expanded
    from reground.retrieval.settings import IndexSettings

    language = order.language or IndexSettings.language
    if is_index(order.source):  # its own files would be read as documents
        raise ConfigurationError(f"{order.source} is an index: give the documents that it was made of")
    if order.out is None:
        if not order.report:
            raise ConfigurationError("give a folder for the index: --out INDEX (or --report, to list what is not read)")
        if any(getattr(order, name) != getattr(Index, name) for name in _OWN):
            raise ConfigurationError("--kind, --embedder and --chunk-tokens need an index of its own: --out")
        settings = replace(default_settings(order.retrieval), language=language)
        return settings, cached_index_path(expanded(order.source), settings)
    kind, embedder = order.kind, order.embedder
    if order.retrieval is not None:
        from reground.retrieval.settings import preset

        chosen = preset(order.retrieval)
        if kind not in ("bm25", chosen.kind):
            raise ConfigurationError(f"--retrieval {order.retrieval} makes a {chosen.kind} index: leave out --kind")
        kind, embedder = chosen.kind, embedder or chosen.embedder
    settings = IndexSettings(
        kind=cast(Any, kind),
        language=language,
        chunk_tokens=order.chunk_tokens,
        overlap=min(order.overlap, order.chunk_tokens // 4),
        embedder=embedder,
        embedder_url=order.model_options.base_url,
    )
    return settings, order.out


def _show_unread(console: Any, report: IndexReport, *, whole: bool) -> None:
    from reground.app.cli.display import plain
    from reground.retrieval.scan import counted, line

    if not whole:
        if said := line(report):
            console.print(plain(said, "yellow"), soft_wrap=True)
        return
    for skipped in report.skipped:
        console.print(plain(f"not read  {skipped.path}: {skipped.why}"), soft_wrap=True)
    for part in report.partly:
        console.print(plain(f"in part   {part.path}: {part.why}"), soft_wrap=True)
    console.print(plain(f"not read: {counted(report.skipped)}" if report.skipped else "every file was read"))


def _show_report(console: Any, report: IndexReport, *, whole: bool) -> None:
    from reground.app.cli.display import plain

    console.print(
        plain(f"{report.passages} passages from {report.documents} documents in {report.path}"),
        plain(
            f"({report.read} documents read, {report.kept} unchanged, {report.removed} removed, "
            f"{report.seconds:.1f} s, at most {report.memory / 1e6:.0f} MB of memory)",
            "dim",
        ),
    )
    _show_unread(console, report, whole=whole)
    for note in report.notes:
        console.print(plain(note, "yellow"))
    if report.duplicate_count:
        console.print(
            plain(f"{report.duplicate_count} documents had an id that was taken: {report.duplicates[0]}, ...", "yellow")
        )
    if report.dropped_count:
        console.print(f"dropped {report.dropped_count} passages that overlap a benchmark's solutions:")
        for dropped in report.dropped[:20]:
            console.print(plain(f"  {dropped.id}: {dropped.ngram}", "dim"))
        if report.dropped_count > 20:
            console.print(f"  ... and {report.dropped_count - 20} more; --json lists a thousand")


def _decontaminator(tasks: list[str], data: Path | None) -> Decontaminator:
    from reground.evaluation.tasks import load_task
    from reground.retrieval.decontaminate import Decontaminator

    return Decontaminator([text for name in tasks for text in load_task(name, data).solutions()])
