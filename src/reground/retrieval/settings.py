"""How an index is made, what its making came to, and named ways to search.

A preset stands for a kind of index, an embedder and a reranker that exist on their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from reground.core.errors import ConfigurationError, MissingExtra, did_you_mean
from reground.core.language import Value
from reground.text.languages import VERSION, language_code

Kind = Literal["bm25", "dense", "hybrid"]
_BYTES_OF_A_FILE = 10_000  # what opening a file costs, in bytes that could be read instead


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """How an index is made. An update with other settings rebuilds it.

    kind: search words (bm25), vectors (dense) or both (hybrid).
    chunk_tokens, overlap: the length of a passage and what neighbours share, in the tokens of `chunking`. A small model
        reads several passages of 200 to 400; RaR, appendix A.3, has 2000.
    language: an ISO 639-1 code or an English name; picks stemmer and stop words. "zh" is segmented, "none" is not
    stemmed.
        Writing without spaces is found in every language, by pairs of characters.
    embedder: `onnx/minilm`, `onnx/<folder>`, `openai/<model>` (any /v1/embeddings endpoint) or `st/<name or path>`
        (sentence-transformers); for vectors.
    embedder_url: the endpoint's base URL, where it is not that of OPENAI_BASE_URL.
    query_prefix, passage_prefix: the text that the embedder expects before each query and passage ("query: " and
    "passage: " for E5).
    """

    kind: Kind = "bm25"
    chunk_tokens: int = 400
    overlap: int = 50
    language: str = "en"
    embedder: str | None = None
    embedder_url: str | None = None
    query_prefix: str = ""
    passage_prefix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        if self.kind not in get_args(Kind):
            raise ConfigurationError(f"no kind of index {self.kind!r}; choose one of: {', '.join(get_args(Kind))}")
        if self.chunk_tokens < 1 or not 0 <= self.overlap < self.chunk_tokens:
            raise ConfigurationError(
                f"passages of {self.chunk_tokens} tokens cannot overlap by {self.overlap}: "
                "the overlap must be at least 0 and smaller than the passage"
            )
        if self.kind != "bm25" and not self.embedder:
            raise ConfigurationError(f"a {self.kind} index needs an embedder: onnx/minilm, openai/<model> or st/<name>")

    @property
    def terms(self) -> int:
        """The version of the terms that words are searched by; 1 where none are."""
        return 1 if self.kind == "dense" else VERSION


class Progress(Value):
    """How far a build has come: documents seen so far, and the file being read. `total` counts files.

    size, done: the bytes of that file, and how many of them are behind. all_size, all_done: the bytes of all files that
    have to be read, and how many of them are behind.
    listed: the files found so far, while they are being listed. writing: all is read, and is being written out.
    waiting: nothing is read yet, because another process builds the same index.
    """

    documents: int = 0
    passages: int = 0
    files: int = 0
    total: int = 0
    file: str = ""
    size: int = 0
    done: int = 0
    all_size: int = 0
    all_done: int = 0
    listed: int = 0
    writing: bool = False
    waiting: bool = False

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1: by bytes, and by files because each costs something by itself."""
        if self.writing:
            return 1.0
        whole = self.all_size + _BYTES_OF_A_FILE * self.total
        return (self.all_done + _BYTES_OF_A_FILE * (self.files - 1)) / whole if self.total else 0.0


class Skipped(Value):
    """A file that gave no document, and why; kind: the same in a word, by which such files are counted.

    A folder that is passed over stands for all that is in it.
    """

    path: str
    why: str
    kind: str = "failed"


class Dropped(Value):
    """A passage that was left out because it shares `ngram` with a benchmark's solution."""

    id: str
    ngram: str


class IndexReport(Value):
    """What a build did.

    source, language: the corpus, as its path was given, and its language. documents, passages: the numbers in the index
    now. read, kept, removed: the numbers of documents that were indexed, unchanged, and removed. skipped, dropped,
    duplicates: what was left out; at most a thousand of the last two are listed, but the counts are complete. partly:
    the files of which a part was not read. notes: messages for the user, in whole sentences. memory: the most bytes
    that the process held resident until then.
    """

    path: Path
    source: Path | None = None
    language: str = "en"
    name: str
    documents: int
    passages: int
    read: int = 0
    kept: int = 0
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()
    partly: tuple[Skipped, ...] = ()
    duplicates: tuple[str, ...] = ()
    duplicate_count: int = 0
    dropped: tuple[Dropped, ...] = ()
    dropped_count: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    memory: int = 0


_EMBEDDER = "onnx/minilm"
_NEEDED = ("lancedb", "onnxruntime", "tokenizers")


class Preset(NamedTuple):
    """What a name stands for. The length of passages is for commands that index documents themselves."""

    settings: IndexSettings
    rerank: str | None = None


# The embedder reads 256 tokens.
_VECTORS = IndexSettings(kind="hybrid", embedder=_EMBEDDER, chunk_tokens=200, overlap=25)
PRESETS = {"bm25": Preset(IndexSettings()), "hybrid": Preset(_VECTORS), "best": Preset(_VECTORS, "links")}


def preset(name: str) -> Preset:
    """The preset of a name. Raises ConfigurationError for an unknown one, MissingExtra where it lacks a library."""
    choice = PRESETS.get(name)
    if choice is None:
        raise ConfigurationError(f"no retrieval is called {name!r}; {did_you_mean(name, PRESETS)}")
    if choice.settings.embedder == _EMBEDDER and not all(map(find_spec, _NEEDED)):
        raise MissingExtra(f"--retrieval {name}", "hybrid")
    return choice
