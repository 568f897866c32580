"""Turns a corpus into a retriever: opens an index, or indexes documents once and caches the index."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reground.core.errors import ConfigurationError, DataError, IndexBusy
from reground.core.paths import expanded, indexes_dir

if TYPE_CHECKING:
    from reground.app.options_documents import Reranking
    from reground.core.evidence import Retriever
    from reground.retrieval.index import IndexRetriever
    from reground.retrieval.settings import IndexReport, IndexSettings, Preset, Progress

T = TypeVar("T")

BACKGROUND = "reground-index"
"""The name of the indexing threads."""
_MOMENT = 0.3
"""Seconds that cancelled work has to clean up."""

ANSWERING = "links"
"""What reranks an index by words when somebody asks it. On no corpus that was measured was it worse, and it needs no
model (docs/reproduction/retrieval.md and win.md). Evaluations rerank as they are told.
"""

_SOON, _LATE = 0.2, 5.0
"""First and longest pause, in seconds, between checks of an index that another process builds.

The pause grows because every check reads the folder of the corpus.
"""


async def corpus_retriever(
    corpus: str | Path | Retriever,
    on_index: Callable[[Progress], None] | None = None,
    settings: IndexSettings | None = None,
    *,
    language: str | None = None,
    retrieval: str | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Retriever:
    """Return a retriever over `corpus`: a retriever unchanged, an index opened, documents indexed into the cache.

    Every call updates the cached index and reads only what has changed. While another process updates it, this call
    waits. `language` is the language of the documents, "en" by default; an existing index must have been built with it.
    `retrieval` is the preset that says how to index, where `settings` do not; an existing index must be of its kind.
    `on_report` receives the report of the indexing. Raises ConfigurationError if `language` or `retrieval` does not
    match the corpus.
    """
    if not isinstance(corpus, str | Path):
        if language is not None:
            raise ConfigurationError("a language is for documents that are indexed here, not for a retriever")
        if retrieval is not None:
            raise ConfigurationError("--retrieval is for documents that are indexed here, not for a retriever")
        return corpus
    pause = _SOON
    while True:
        try:
            return await stoppable(partial(_open, Path(corpus), settings, language, retrieval, on_report), on_index)
        except IndexBusy:
            if on_index is not None:
                on_index(_waiting())
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)


def check_corpus(corpus: object) -> None:
    """Refuse a path at which nothing is, before a model is downloaded or loaded. Raises DataError."""
    path = folder_of(corpus)
    if path is not None and not path.exists():
        raise DataError("there is no such corpus: give a folder of documents, a JSONL file or an index", path=path)


def check_reranker(order: Reranking) -> None:
    """Refuse an unknown preset or kind of reranker before anything is indexed. Raises ConfigurationError."""
    if order.retrieval is not None:
        _preset(order.retrieval)
    if order.rerank is not None:
        from reground.retrieval.rerank import known

        known(order.rerank)


def reranked(retriever: Retriever, order: Reranking, *, closes: bool = True, usual: str | None = None) -> Retriever:
    """The retriever, with the reranker of the options if there is one. closes: whether closing it closes this one too.

    usual: the reranker of an index by words where the options say nothing of how to search. Raises ConfigurationError
    for a reranker that does not exist.
    """
    spec = order.rerank
    if spec is None and order.retrieval is not None:
        spec = _preset(order.retrieval).rerank
    elif spec is None and usual is not None and _by_words(retriever):
        spec = usual
    if spec is None:
        return retriever
    from reground.retrieval.rerank import rerank

    return rerank(
        retriever,
        spec,
        depth=order.rerank_depth,
        tokens=order.rerank_tokens,
        by=order.rerank_by,
        closes=closes,
    )


def _by_words(retriever: Retriever) -> bool:
    from reground.retrieval.index import IndexRetriever

    return isinstance(retriever, IndexRetriever) and retriever.manifest.settings["kind"] == "bm25"


def _waiting() -> Progress:
    from reground.retrieval.settings import Progress

    return Progress(waiting=True)


async def stoppable(
    work: Callable[[Callable[[Progress], None]], T], on_index: Callable[[Progress], None] | None = None
) -> T:
    """Run `work` in a thread and return its result. `work` must regularly call its argument with its progress.

    After a cancellation, such as Ctrl-C, the work ends at its next report. This function waits only a moment for that:
    a longer library call continues in the background, and the next build removes what it has written.
    """
    result: Future[T] = Future()
    stopped = threading.Event()

    def watch(progress: Progress) -> None:
        if stopped.is_set():
            raise asyncio.CancelledError
        if on_index is not None:
            on_index(progress)

    def run() -> None:
        result.set_running_or_notify_cancel()
        try:
            result.set_result(work(watch))
        except BaseException as error:
            result.set_exception(error)

    # A daemon thread, because the loop and the interpreter wait for asyncio's own threads when they end.
    thread = threading.Thread(target=run, name=BACKGROUND, daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(result)
    except asyncio.CancelledError:
        stopped.set()
        thread.join(_MOMENT)
        raise


def _open(
    path: Path,
    settings: IndexSettings | None,
    language: str | None,
    retrieval: str | None,
    on_report: Callable[[IndexReport], None] | None,
    on_index: Callable[[Progress], None],
) -> Retriever:
    from reground.retrieval.index import build_index, open_index

    check_corpus(path)
    path = expanded(path)
    if is_index(path):
        return _suiting(open_index(path), path, language, retrieval)
    settings = settings if settings is not None else default_settings(retrieval)
    settings = settings if language is None else replace(settings, language=language)
    out = cached_index_path(path, settings)
    report = build_index(path, out, settings, progress=on_index)
    if on_report is not None:
        on_report(report)
    return open_index(out)


def _suiting(index: IndexRetriever, place: Path, language: str | None, retrieval: str | None) -> IndexRetriever:
    """The index, if it is of the language and the kind that are asked for. Raises ConfigurationError."""
    from reground.text.languages import language_code

    made_with = index.manifest.settings["language"]
    if language is not None and language_code(language) != made_with:
        raise ConfigurationError(
            f"the index {place} was made with the language {made_with}: leave --language out, "
            f"or make it again with reground index --language {language}"
        )
    if retrieval is not None and _preset(retrieval).kind != (kind := index.manifest.settings["kind"]):
        raise ConfigurationError(
            f"the index {place} is of the kind {kind}, and --retrieval {retrieval} needs {_preset(retrieval).kind}: "
            f"give the documents, or make it again with reground index --retrieval {retrieval}"
        )
    return index


def is_index(corpus: Path) -> bool:
    """Whether a corpus is an index, and not documents."""
    from reground.retrieval.storage import holds_index

    return holds_index(expanded(corpus))


def folder_of(corpus: object) -> Path | None:
    """The folder or file that was given as the corpus; None for a retriever or nothing."""
    return expanded(corpus) if isinstance(corpus, str | Path) else None


def default_settings(retrieval: str | None = None) -> IndexSettings:
    """The settings of a preset, bm25 by default, with chunks so short that a small model can read several of them."""
    return _preset(retrieval or "bm25").settings()


def _preset(name: str) -> Preset:
    """A preset whose extra is there. Raises ConfigurationError, MissingExtra."""
    from reground.retrieval.settings import preset

    return preset(name)


def cached_index_path(corpus: Path, settings: IndexSettings) -> Path:
    """The folder of a corpus's cached index: one per path and settings."""
    from reground.retrieval.scan import written

    path = Path(written(corpus.resolve()))  # the writers of an index take only names in Unicode
    key = hashlib.sha256(f"{path}\n{settings!r}".encode()).hexdigest()[:12]
    return indexes_dir() / f"{path.stem or 'corpus'}-{key}"
