"""Named ways to search: each stands for a kind of index, an embedder and a reranker that exist on their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec

from reground.core.errors import ConfigurationError, MissingExtra, did_you_mean
from reground.retrieval.settings import IndexSettings, Kind

_EMBEDDER = "onnx/minilm"
_NEEDED = ("lancedb", "onnxruntime", "tokenizers")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What a name stands for. The length of passages, in tokens, is for commands that index documents themselves."""

    kind: Kind
    embedder: str | None = None
    rerank: str | None = None
    chunk_tokens: int = 400
    overlap: int = 50

    def settings(self) -> IndexSettings:
        """How documents are indexed."""
        return replace(
            IndexSettings(),
            kind=self.kind,
            embedder=self.embedder,
            chunk_tokens=self.chunk_tokens,
            overlap=self.overlap,
        )


_VECTORS = Preset(kind="hybrid", embedder=_EMBEDDER, chunk_tokens=200, overlap=25)  # the embedder reads 256 tokens
PRESETS: dict[str, Preset] = {
    "bm25": Preset(kind="bm25"),
    "hybrid": _VECTORS,
    "best": replace(_VECTORS, rerank="links"),
}


def preset(name: str) -> Preset:
    """The preset of a name. Raises ConfigurationError for an unknown one, MissingExtra where it lacks a library."""
    found = PRESETS.get(name)
    if found is None:
        raise ConfigurationError(f"no retrieval is called {name!r}; {did_you_mean(name, PRESETS)}")
    if found.embedder == _EMBEDDER and not all(map(find_spec, _NEEDED)):
        raise MissingExtra(f"--retrieval {name}", "hybrid")
    return found
