"""Embedders turn texts into vectors of length one.

`openai/<model>` asks any server with a /v1/embeddings endpoint. `st/<name or path>` runs a sentence-transformers model
in process (extra [embed]). `onnx/<folder>` runs any encoder's folder with model.onnx and tokenizer.json, as
sentence-transformers exports it, by onnxruntime and without torch (extra [hybrid]); `onnx/minilm` is all-MiniLM-L6-v2
with eight-bit weights, 23 MB, which is downloaded when it is first needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable
from urllib.parse import urlsplit

from reground.core import http
from reground.core.concurrency import PerLoop
from reground.core.errors import (
    AuthenticationError,
    ConfigurationError,
    ContextLengthExceeded,
    MissingExtra,
    ModelError,
    TransientModelError,
)
from reground.core.files import expanded, files_fingerprint, model_place, quietly, trouble
from reground.downloads import bring, known_weights

if TYPE_CHECKING:
    import numpy as np

    Vectors = np.ndarray[Any, np.dtype[np.float32]]


_REFUSED = frozenset((400, 413, 422))
_TOO_LONG = re.compile(r"context|too (?:long|large)|length|tokens", re.IGNORECASE)
_BASE_URL = "https://api.openai.com/v1"
_VECTOR_BYTES = 1 << 19  # a number takes at most about 25 bytes, so this is a vector of twenty thousand numbers


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Raises ModelError."""

    @property
    def name(self) -> str:
        """`provider/model`; an index made with one embedder cannot be searched with another."""

    @property
    def limit(self) -> int | None:
        """The number of tokens of a text that it reads, if known; the rest does not affect the vector."""

    @property
    def weights(self) -> str | None:
        """The fingerprint of its weights, if they are here; other weights make other vectors."""

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """One row of length one for each text. Some embedders treat queries and passages differently."""

    async def aclose(self) -> None:
        """Close connections. The embedder can still be used and opens new ones."""


def create_embedder(
    name: str, *, base_url: str | None = None, sends_key: bool = True, batch: int | None = None
) -> Embedder:
    """The embedder of a name. sends_key, batch: as in `EndpointEmbedder`. Raises ConfigurationError, MissingExtra."""
    provider, _, model = name.partition("/")
    if provider == "openai" and model:
        return EndpointEmbedder(model, base_url, sends_key, batch or EndpointEmbedder.batch)
    if provider == "st" and model:
        return sentence_transformer(model)
    if provider == "onnx" and model:
        return onnx_encoder(model)
    raise ConfigurationError(
        f"no embedder {name!r}; write openai/<model> for a server with /v1/embeddings, onnx/minilm or onnx/<folder>, "
        "or st/<name or path> for sentence-transformers"
    )


class _TooMany(Exception):
    """A refusal of several texts: they may be too many, in whatever words."""


@dataclass
class EndpointEmbedder:
    """A model behind POST <base URL>/embeddings, as OpenAI, vLLM, llama.cpp, Ollama and others offer it.

    The base URL is that of OPENAI_BASE_URL unless given, the key that of OPENAI_API_KEY. `batch` texts go in one
    request, fewer once the server has refused that; `concurrency` requests at once. Transient errors (429, 5xx, lost
    connections) are retried up to `attempts` times, with growing, jittered waits or those of Retry-After. sends_key:
    False for a base URL that somebody else chose, such as the maker of an index; then only OpenAI and the server of
    OPENAI_BASE_URL get the key.
    """

    model: str
    base_url: str | None = None
    sends_key: bool = True
    batch: int = 64
    concurrency: int = 4
    attempts: int = 5
    timeout: float = 60.0
    wait: float = 0.5

    limit = None
    weights = None

    def __post_init__(self) -> None:
        self.name = f"openai/{self.model}"
        address = self.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or _BASE_URL
        http.check_address(address, "the base URL" if self.base_url else "the base URL in OPENAI_BASE_URL")
        if not re.match(r"https?://[^/@\s]+(/|$)", address):
            raise ConfigurationError(f"the embedder's base URL must look like {_BASE_URL}, without user and password")
        parts = urlsplit(address)
        self._url = parts._replace(path=f"{parts.path.rstrip('/')}/embeddings").geturl()
        self.sends_key = self.sends_key or is_of_the_key(address)
        self._sessions = PerLoop(self._session)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """One row of length one for each text."""
        gate = asyncio.Semaphore(self.concurrency)

        async def rows(batch: list[str]) -> list[list[float]]:
            if len(batch) > self.batch:
                parts = [batch[start : start + self.batch] for start in range(0, len(batch), self.batch)]
                return [row for part in parts for row in await rows(part)]
            try:
                async with gate:
                    return await http.persist(partial(self._ask, batch), self.attempts, base=self.wait)
            except _TooMany:
                self.batch = min(self.batch, len(batch) // 2)
                return await rows(batch)

        sizes = range(0, len(texts), self.batch)
        tasks = [asyncio.ensure_future(rows(list(texts[start : start + self.batch]))) for start in sizes]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return unit([row for rows in results for row in rows])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._sessions.aclose()

    async def _ask(self, batch: list[str]) -> list[list[float]]:
        # An empty text is refused by most servers.
        body = {"model": self.model, "input": [text or " " for text in batch]}
        most = min(http.MOST_LIMIT, http.LEAST_LIMIT + len(batch) * _VECTOR_BYTES)
        status, headers, reply = await http.post(await self._sessions.get(), self._url, body, most=most)
        is_refused = status in _REFUSED or b"too large to process" in reply  # llama.cpp says that under a 500
        if is_refused and len(batch) > 1:
            raise _TooMany
        if status == 401 and not self.sends_key:
            raise AuthenticationError(f"this index asks {self._url}, which gets no key unless OPENAI_BASE_URL names it")
        if status != 200:
            error = http.refusal(self._url, status, headers, reply, "OPENAI_API_KEY")
            if is_refused and _TOO_LONG.search(str(error).removeprefix(self._url)):
                raise ContextLengthExceeded(f"a passage is too long; choose fewer --chunk-tokens ({error})")
            raise error
        rows = partial(_rows, reply, len(batch), self._url)
        return await asyncio.to_thread(rows) if len(reply) > http.LARGE else rows()

    def _session(self) -> Any:
        import aiohttp

        headers = http.headers_with(http.key_in("OPENAI_API_KEY") if self.sends_key else None)
        timeout = aiohttp.ClientTimeout(total=self.timeout, sock_connect=15)
        return aiohttp.ClientSession(headers=headers, auto_decompress=False, timeout=timeout)


def is_of_the_key(url: str) -> bool:
    """Whether a server is the one that OPENAI_API_KEY is for."""
    return http.same_server(url, _BASE_URL, os.environ.get("OPENAI_BASE_URL", "").strip())


def _rows(body: bytes, count: int, url: str) -> list[list[float]]:
    try:
        reply = http.read_json(body)
    except ValueError:
        raise TransientModelError(f"{url} gave a malformed reply") from None
    try:
        data = sorted(reply["data"], key=lambda entry: entry["index"])
        rows = [entry["embedding"] for entry in data]
        lengths = {len(row) for row in rows}
    except (KeyError, TypeError):
        raise TransientModelError(f"{url} gave a reply without embeddings") from None
    if len(rows) != count:
        raise TransientModelError(f"{url} gave {len(rows)} embeddings for {count} texts")
    if len(lengths) != 1:
        raise ModelError(f"{url} gave embeddings of different lengths")
    return rows


class _Loaded(NamedTuple):
    """A model in memory. rows: a vector for each text; of queries, if the second argument says so. limit: the tokens of
    a text that are read."""

    rows: Callable[[list[str], bool], Any]
    limit: int | None


class _Local:
    """A model in this process, loaded when it is first used; one thread at a time asks it.

    fingerprint: of the weights, where they are in a folder. limit: where it is known before the model is loaded.
    """

    def __init__(
        self, name: str, load: Callable[[], _Loaded], fingerprint: Callable[[], str | None], limit: int | None = None
    ) -> None:
        self.name = name
        self._load = cache(load)
        self._fingerprint = fingerprint
        self._limit = limit
        self._lock = threading.Lock()

    @property
    def limit(self) -> int | None:
        with self._lock:
            return self._limit or self._load().limit

    @property
    def weights(self) -> str | None:
        return self._fingerprint()

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        def vectors() -> Vectors:
            with self._lock:
                return unit(self._load().rows(list(texts), query))

        return await asyncio.to_thread(vectors)

    async def aclose(self) -> None:
        pass


def sentence_transformer(model: str) -> Embedder:
    """A sentence-transformers model from a folder or the hub."""
    name = f"st/{model}"

    def load() -> _Loaded:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra(f"the embedder {name}", "embed") from None
        place = model_place(model, f"embedder {name}")
        try:
            with quietly():
                loaded = SentenceTransformer(place)
        except Exception as error:  # each library has its own errors for damaged weights
            raise ConfigurationError(f"cannot load the embedder {name}: {trouble(error, place)}") from None

        def rows(texts: list[str], query: bool) -> Any:
            # since sentence-transformers 5
            encode = getattr(loaded, "encode_query" if query else "encode_document", loaded.encode)
            return encode(texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True)

        return _Loaded(rows, int(loaded.max_seq_length) if loaded.max_seq_length else None)

    # Its parts lie in folders such as 1_Pooling and query_0_StaticEmbedding.
    return _Local(name, load, lambda: files_fingerprint(expanded(model), "*[0-9]_*"))


MINILM = "minilm"
_LIMIT = 256  # tokens that MiniLM reads, and any model that does not say it
_TOKENIZER = "tokenizer.json"
_FILES = ("model.onnx", "onnx/model.onnx")
_POOLING = "1_Pooling"
MINILM_FILES = tuple(known_weights("minilm").values())


def onnx_encoder(model: str) -> Embedder:
    """An encoder in the ONNX format, from a folder, or `minilm`."""
    name = f"onnx/{model}"

    def folder() -> Path:
        if model == MINILM:
            place, _ = (bring(file).parent for file in MINILM_FILES)
            return place
        if not expanded(model).is_dir():
            hint = f"write onnx/{MINILM} or onnx/<folder>"
            raise ConfigurationError(f"no embedder {name}: there is no folder {model}; {hint}")
        return expanded(model)

    load = partial(_encoder, name, folder)
    if model == MINILM:
        return _Local(name, load, lambda: MINILM_FILES[0].sha256[:32], _LIMIT)
    return _Local(name, load, lambda: files_fingerprint(folder(), "onnx", _POOLING))


def _encoder(name: str, place: Callable[[], Path]) -> _Loaded:
    """The encoder of a folder. A text's vector is the mean over its tokens, or that of the first.

    Texts are computed one by one. Eight-bit models scale numbers by the whole batch, so with others in it a text would
    get another vector in each build; and nothing is padded.
    """
    try:
        import numpy as np
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra(f"the embedder {name}", "hybrid") from None
    folder = place()
    limit = int(_setting(folder / "sentence_bert_config.json", "max_seq_length", _LIMIT))
    reads_first = bool(_setting(folder / _POOLING / "config.json", "pooling_mode_cls_token", False))
    try:
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(limit)
        model = next((folder / file for file in _FILES if (folder / file).is_file()), folder / _FILES[0])
        options = onnxruntime.SessionOptions()
        # All cores but one: threads wait for each other after each layer, so one without a core holds all.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        options.intra_op_num_threads = max(1, min(8, cores - 1))
        # Spinning threads slow down everything else that wants a core.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # both libraries have errors of their own for damaged files
        raise ConfigurationError(f"cannot load the embedder {name}: {trouble(error)}") from None
    names = {each.name for each in session.get_inputs()}

    def row(text: str) -> Any:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            hidden = session.run(None, {name: inputs[name] for name in names})[0]
        except Exception as error:
            why = trouble(error)
            raise ModelError(f"{name} could not embed a text of {ids.size} tokens: {why}") from None
        if getattr(hidden, "ndim", 0) != 3:
            raise ModelError(f"{name} is no encoder: its first output is not a vector for each token")
        return hidden[0, 0] if reads_first else hidden[0].mean(axis=0)

    return _Loaded(lambda texts, query: [row(text) for text in texts], limit)


def _setting(file: Path, key: str, default: object) -> Any:
    """A value of a small JSON file; the default without the file. Raises ConfigurationError for a broken one."""
    try:
        return json.loads(file.read_text(encoding="utf-8")).get(key, default) or default
    except FileNotFoundError:
        return default
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


def unit(rows: Any) -> Vectors:
    """Rows scaled to length one. Raises ModelError for what are no vectors of numbers."""
    import numpy as np

    try:
        vectors = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        vectors = np.empty(0, dtype=np.float32)
    if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
        raise ModelError("the embedder gave something other than vectors of numbers")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit
