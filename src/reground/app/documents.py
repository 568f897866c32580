"""Opens what is searched: documents, the web, or a retriever of the user's own.

An index is opened as it is. A folder, a file or a list of texts is indexed once into the cache, and brought up to date
whenever it is opened again.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from reground.app.options import Searching, Web
from reground.core.concurrency import close, in_daemon
from reground.core.errors import ConfigurationError, DataError, IndexBusy, did_you_mean
from reground.core.evidence import Passage, Retriever
from reground.core.files import expanded, indexes_dir, replace_lines
from reground.core.user_code import called, check_parts, entries, load_file
from reground.retrieval.documents import Scan, read_documents, scan, written
from reground.retrieval.encodings import decode
from reground.retrieval.filters import ALL, Globs
from reground.retrieval.filters import where as filter_of
from reground.retrieval.index import IndexRetriever, build_index, open_index
from reground.retrieval.rerank import only, parse_spec, rerank
from reground.retrieval.settings import IndexReport, IndexSettings, Progress, preset
from reground.retrieval.storage import holds_index, read_manifest
from reground.text.languages import language_code

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
STDIN = "-"
"""The corpus that stands for text from standard input."""
RETRIEVERS = "reground.retrievers"
"""The entry points of retrievers: modules with `create(argument)`."""


@dataclass(frozen=True)
class Source:
    """What is searched under one name.

    place: a path, a list of texts, passages and paths, or an open retriever; None for what the options name instead,
    the web or a retriever of the user's own. questions: those of a measurement; pages that hold one of them, and hosts
    where benchmarks lie, are never given. usual: what reranks an index by words where the options say nothing.
    """

    place: object = None
    questions: tuple[str, ...] = ()
    usual: str | None = ANSWERING

    @property
    def folder(self) -> Path | None:
        """The folder or file on this machine; None for anything else."""
        elsewhere = self.place == STDIN or is_page(self.place)
        return expanded(self.place) if isinstance(self.place, str | Path) and not elsewhere else None

    def check(self) -> None:
        """Refuse a path at which nothing is, before a model is downloaded or loaded. Raises DataError."""
        if self.place == "":
            raise DataError("a path is empty; the current folder is .")
        if self.folder is not None and not self.folder.exists():
            why = "there is no such corpus: give a folder or a file (--include chooses files by a glob), or an index"
            raise DataError(why, path=self.folder)


async def open_source(
    source: Source,
    options: Searching,
    opened: AsyncExitStack,
    *,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
    listing: Scan | None = None,
) -> Retriever:
    """Open what is searched, and rerank it as the options say. It is closed with `opened`.

    A retriever that the caller opened stays open, and is reranked only where the options ask for it. listing: the files
    of a folder that was just looked at. Raises ConfigurationError for options that do not fit, and DataError.
    """
    if isinstance(source.place, Retriever):
        for option in ("language", "retrieval", "include", "exclude"):
            if getattr(options, option) is not None:
                raise ConfigurationError(f"--{option} is for documents that are indexed here, not for a retriever")
        return reranked(await only(source.place, options.where), options)
    if source.place is None and isinstance(options, Web) and names_other(options):
        retriever = own_retriever(options.retriever) if options.retriever else _web(options, source.questions)
    else:
        corpus = await _page(source.place, options) if is_page(source.place) else await as_corpus(source.place)
        retriever = await corpus_retriever(
            corpus, on_index, options.language, options.retrieval, on_report, listing, options.globs
        )
    retriever = reranked(await only(retriever, options.where), options, usual=source.usual)
    opened.push_async_callback(close, retriever)
    return retriever


def contents(corpus: Path, globs: Globs) -> Scan | str:
    """What is another value when a corpus has changed: its files with their sizes and times, or an index's generation.

    Raises DataError, IndexRefused.
    """
    return read_manifest(corpus).generation if holds_index(corpus) else scan(corpus, globs=globs)


async def corpus_retriever(
    corpus: str | Path,
    on_index: Callable[[Progress], None] | None = None,
    language: str | None = None,
    retrieval: str | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
    listing: Scan | None = None,
    globs: Globs = ALL,
) -> Retriever:
    """Open an index, or index documents into the cache.

    Every call updates the cached index and reads only what has changed. While another process updates it, this call
    waits. language: of the documents, English by default; an existing index must have been built with it. retrieval:
    the preset that says how to index; an existing index must be of its kind. on_report: gets the report of the
    indexing. globs: which files of a folder are read. listing: those, if the folder was just looked at. Raises
    ConfigurationError if language, retrieval or globs do not match the corpus.
    """

    def work(watch: Callable[[Progress], None]) -> Retriever:
        path = expanded(corpus)
        Source(path).check()
        if holds_index(path):
            if globs != ALL:
                raise ConfigurationError(f"{path} is an index: choose among its documents with --where path:GLOB")
            return _opened_index(path, language, retrieval)
        settings = preset(retrieval or "bm25").settings
        settings = settings if language is None else replace(settings, language=language)
        out = cached_index_path(path, settings, globs)
        report = build_index(path, out, settings, progress=watch, corpus=listing, globs=globs)
        if on_report is not None:
            on_report(report)
        return open_index(out)

    pause = _SOON
    while True:
        try:
            return await stoppable(work, on_index)
        except IndexBusy:
            if on_index is not None:
                on_index(Progress(waiting=True))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)


def _opened_index(path: Path, language: str | None, retrieval: str | None) -> IndexRetriever:
    """An index of the language and the kind that are asked for. Raises ConfigurationError where it is of another."""
    index = open_index(path)
    made_with, kind = index.manifest.settings["language"], index.manifest.settings["kind"]
    if language is not None and language_code(language) != made_with:
        raise ConfigurationError(
            f"the index {path} was made with the language {made_with}: leave --language out, "
            f"or make it again with reground index --language {language}"
        )
    needed = preset(retrieval).settings.kind if retrieval is not None else kind
    if needed != kind:
        raise ConfigurationError(
            f"the index {path} is of the kind {kind}, and --retrieval {retrieval} needs {needed}: "
            f"give the documents, or make it again with reground index --retrieval {retrieval}"
        )
    return index


def check_searching(options: Searching, *, has_documents: bool = True) -> None:
    """Refuse an unknown preset or kind of reranker, or a filter that cannot be read, before anything is indexed.

    Raises ConfigurationError.
    """
    if options.where is not None:
        filter_of(options.where)
        if not has_documents:
            raise ConfigurationError("--where chooses among documents: give --corpus DIR")
    if options.retrieval is not None:
        preset(options.retrieval)
    if options.rerank is not None:
        parse_spec(options.rerank)


def reranked(retriever: Retriever, options: Searching, *, usual: str | None = None) -> Retriever:
    """The retriever, with the reranker of the options if there is one.

    usual: the reranker of an index by words where the options say nothing of how to search. Raises ConfigurationError
    for a reranker that does not exist.
    """
    spec = options.rerank
    if spec is None and options.retrieval is not None:
        spec = preset(options.retrieval).rerank
    elif spec is None and isinstance(retriever, IndexRetriever) and retriever.manifest.settings["kind"] == "bm25":
        spec = usual
    if spec is None:
        return retriever
    depth, tokens, by = options.rerank_depth, options.rerank_tokens, options.rerank_by
    return rerank(retriever, spec, depth=depth, tokens=tokens, by=by)


async def stoppable(
    work: Callable[[Callable[[Progress], None]], T], on_index: Callable[[Progress], None] | None = None
) -> T:
    """Run `work` in a thread and return its result. `work` must regularly call its argument with its progress.

    After a cancellation, such as Ctrl-C, the work ends at its next report. This function waits only a moment for that:
    a longer library call continues in the background, and the next build removes what it has written.
    """
    stopped, ended = threading.Event(), threading.Event()

    def watch(progress: Progress) -> None:
        if stopped.is_set():
            raise asyncio.CancelledError
        if on_index is not None:
            on_index(progress)

    def run() -> T:
        try:
            return work(watch)
        finally:
            ended.set()

    try:
        return await in_daemon(run, name=BACKGROUND)
    except asyncio.CancelledError:
        stopped.set()
        ended.wait(_MOMENT)
        raise


def cached_index_path(corpus: Path, settings: IndexSettings, globs: Globs = ALL) -> Path:
    """The folder of a corpus's cached index: one per path, settings and globs."""
    path = Path(written(corpus.resolve()))  # the writers of an index take only names in Unicode
    suffix = f"\n{globs!r}" if globs != ALL else ""
    key = hashlib.sha256(f"{path}\n{settings!r}{suffix}".encode()).hexdigest()[:12]
    return indexes_dir() / f"{path.stem or 'corpus'}-{key}"


def is_page(place: object) -> bool:
    """Whether a corpus is the address of a web page."""
    return isinstance(place, str) and place.startswith(("http://", "https://"))


async def _page(place: object, options: Searching) -> Path:
    """The text of a web page, in one file in the cache. Raises DataError where it cannot be read."""
    from reground.web.fetching import Fetcher, NotFetched, read_page

    url = str(place)
    fetcher = Fetcher(networks=tuple(getattr(options, "web_network", None) or ()))
    try:
        read = await read_page(await fetcher.fetch(url))
    except NotFetched as error:
        raise DataError(f"the page {url} cannot be read: {error}") from None
    finally:
        await fetcher.aclose()
    return await asyncio.to_thread(_gather, [Passage(id=url, title=read.title, text=read.text, url=url)])


async def as_corpus(corpus: object) -> str | Path:
    """Return a path unchanged; write a list of texts, passages and paths, or standard input, to one file in the cache.

    Raises ConfigurationError for anything else, and DataError for a path that does not exist.
    """
    if corpus == STDIN:
        text = decode(await in_daemon(sys.stdin.buffer.read, name="reground-stdin")).text
        if not text.strip():
            raise DataError("standard input holds no text to answer from")
        corpus = [Passage(id="standard input", text=text)]
    if isinstance(corpus, str | Path):
        return corpus
    if not isinstance(corpus, Sequence) or isinstance(corpus, bytes):
        raise ConfigurationError(
            f"a corpus is a path, a retriever, or a list of texts, passages and paths, not {type(corpus).__name__}"
        )
    if len(corpus) == 1 and (path := _path(corpus[0])) is not None:
        return path
    return await asyncio.to_thread(_gather, corpus)


def _gather(items: Sequence[object]) -> Path:
    records = []
    for number, each in enumerate(items, start=1):
        if isinstance(each, Passage):
            records.append({"id": each.id, "title": each.title, "text": each.text, "url": each.url})
        elif (path := _path(each)) is not None:
            for document in (document for file in scan(path).files for document in read_documents(file)):
                name = f"{path.name}/{document.id}" if path.is_dir() else document.id
                fields = {"path": name, **json.loads(document.fields or "{}")}
                record = {"id": name, "title": document.title, "text": document.text, "url": document.url}
                records.append(fields | record)
        elif isinstance(each, str):
            records.append({"id": f"text-{number}", "title": "", "text": each, "url": None})
        else:
            what = type(each).__name__
            raise ConfigurationError(f"item {number} of the corpus is not a text, a passage or a path but {what}")
    if not records:
        raise DataError("the corpus is an empty list: give texts, passages or paths")
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    data = content.encode("utf-8", "replace")
    path = indexes_dir() / f"given-{hashlib.blake2b(data, digest_size=8).hexdigest()}.jsonl"
    if not path.exists():
        replace_lines(path, [data])
    return path


def _path(each: object) -> Path | None:
    """The item as a path; None for a text. One word with a slash or a known suffix counts as a path."""
    if isinstance(each, Path):
        return expanded(each)
    if not isinstance(each, str) or any(c.isspace() for c in each) or len(each) > 1000:
        return None
    path = expanded(each)
    is_path = "/" in each or path.suffix.lower() in {".md", ".txt", ".pdf", ".html", ".jsonl"}
    return path if is_path or path.exists() else None


def names_other(options: object) -> bool:
    """Whether the options name the web or a retriever of the user's own instead of documents.

    Raises ConfigurationError where two things are to be searched.
    """
    names = [name for name in ("corpus", "web", "retriever") if getattr(options, name, None) is not None]
    if len(names) > 1:
        raise ConfigurationError(f"{' and '.join(f'--{name}' for name in names)}: give one of them")
    return names in (["web"], ["retriever"])


def own_retriever(spec: str) -> Retriever:
    """A retriever from a .py file or of a plug-in. Raises ConfigurationError."""
    name, _, argument = spec.partition(":")
    if name.endswith(".py"):
        retriever: Any = getattr(load_file(expanded(Path(name)), "retriever"), argument or "RETRIEVER", None)
        retriever = called(retriever) if inspect.isclass(retriever) or inspect.isroutine(retriever) else retriever
    else:
        plugins = entries({}, RETRIEVERS)
        if name not in plugins:
            hint = did_you_mean(name, plugins) if plugins else "no plug-in brings one; give FILE.py:NAME"
            raise ConfigurationError(f"no retriever is called {name!r}; {hint}")
        module = plugins[name].load()
        check_parts(module, "retriever", "create")
        retriever = called(module.create, argument)
    if not isinstance(retriever, Retriever):
        raise ConfigurationError(f"{spec} is no retriever: it needs a name, and retrieve(query, k=...)")
    return retriever


def _web(options: Web, measured: Sequence[str]) -> Retriever:
    """The web. measured: questions of a measurement; pages that hold one of them are never given."""
    from reground.web.engines import engine
    from reground.web.fetching import Fetcher
    from reground.web.retriever import Blocklist, WebRetriever

    return WebRetriever(
        engine=engine(str(options.web)),
        fetcher=Fetcher(networks=tuple(options.web_network or ())),
        mode=options.web_read,
        words=options.web_words,
        blocked=Blocklist.of(measured) if measured else Blocklist(),
    )
