"""A trained critic behind a server with /v1/rerank, as llama.cpp (`--reranking`) and vLLM have it.

The server joins what is known and a candidate as a cross-encoder does, so it serves the encoders of a critic's folder.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reground.core.concurrency import gather
from reground.core.critic import Pair
from reground.core.errors import AuthenticationError, ConfigurationError, ModelError, TransientModelError
from reground.core.http import ENCODING, BadBody, check_address, key_in, proxy_for, read_body, read_json, redacted
from reground.core.run import Run
from reground.critics import Kind
from reground.critics._folder import folder_of, read_manifest
from reground.critics._scorers import require
from reground.critics._texts import EncoderTexts, scored_text

KEY = "RERANK_API_KEY"
"""The environment variable that holds the server's key, if it asks for one."""

_ROOM = 480  # tokens, for servers whose limit is not known: most encoders read 512
_TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_ATTEMPTS, _WAIT, _SECONDS, _MOST_BYTES = 5, 0.5, 120.0, 8 << 20


@dataclass(frozen=True)
class ServedCritic:
    """Asks a server for the scores of each context's candidates.

    name: with the weights' fingerprint where the folder is known; a bare address says nothing of its weights.
    """

    kind: Kind
    name: str
    url: str

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The server's scores. Raises ModelError, TransientModelError after several attempts, AuthenticationError."""
        texts = await asyncio.to_thread(self._texts, pairs)
        groups: dict[str, list[int]] = {}
        for place, (known, _) in enumerate(texts):
            groups.setdefault(known, []).append(place)
        asked = (self._persist(known, [texts[place][1] for place in places]) for known, places in groups.items())
        scores = [0.0] * len(pairs)
        for places, found in zip(groups.values(), await gather(*asked), strict=True):
            for place, score in zip(places, found, strict=True):
                scores[place] = score
        return scores

    def _texts(self, pairs: Sequence[Pair]) -> list[tuple[str, str]]:
        return [scored_text(self.kind, pair, room=_ROOM, spans=_estimated) for pair in pairs]

    async def _persist(self, known: str, candidates: Sequence[str]) -> list[float]:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._ask(known, candidates)
            except TransientModelError:
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(_WAIT * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        raise AssertionError

    async def _ask(self, known: str, candidates: Sequence[str]) -> list[float]:
        import aiohttp

        key, proxy = key_in(KEY), proxy_for(self.url)
        headers = {"Accept-Encoding": ENCODING} | ({"Authorization": f"Bearer {key}"} if key else {})
        timeout = aiohttp.ClientTimeout(total=_SECONDS, sock_connect=15)
        body = {"model": "critic", "query": known, "documents": [candidate or " " for candidate in candidates]}
        try:
            async with (
                aiohttp.ClientSession(headers=headers, auto_decompress=False, timeout=timeout) as session,
                session.post(self.url, json=body, allow_redirects=False, proxy=proxy) as response,
            ):
                reply = await read_body(response, _MOST_BYTES)
        except BadBody as error:
            raise (TransientModelError if error.passing else ModelError)(f"{self.url} {error}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise TransientModelError(f"cannot reach {self.url}: {why}; is the server running?") from None
        if response.status in (401, 403):
            raise AuthenticationError(f"{self.url} refused the key ({response.status}); is {KEY} right?")
        if response.status != 200:
            said = redacted(" ".join(reply[:2000].decode("utf-8", "replace").split()), key)[:300]
            kind = TransientModelError if response.status in _TRANSIENT else ModelError
            raise kind(f"{self.url} answered {response.status}: {said}")
        return _scores(reply, len(candidates), self.url)


@dataclass(frozen=True, kw_only=True)
class FolderServed(ServedCritic):
    """A server whose weights are those of a folder here, so that texts are cut as in training."""

    folder: Path
    max_length: int
    passage_tokens: int

    def _texts(self, pairs: Sequence[Pair]) -> list[tuple[str, str]]:
        texts = EncoderTexts(_tokenizer(self.folder), self.max_length)
        return [texts(self.kind, pair) for pair in pairs]


def _scores(body: bytes, count: int, url: str) -> list[float]:
    """The scores in the order of the candidates. Raises ModelError for a reply of another shape."""
    try:
        found: dict[int, float] = {}
        for entry in read_json(body)["results"]:
            found[int(entry["index"])] = float(entry["relevance_score"])
        return [found[place] for place in range(count)]
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"{url} gave no score for each of {count} candidates; does the server rerank?") from None


def served(kind: Kind, detail: str) -> ServedCritic:
    """The critic of `URL` or `URL#FOLDER`. Raises ConfigurationError."""
    url, _, place = detail.partition("#")
    check_address(url, "the critic's address")
    if not re.match(r"https?://[^/@\s]+(/|$)", url):
        raise ConfigurationError("the critic's address must look like http://localhost:8080/v1")
    url = url.rstrip("/")
    url = url if url.endswith("/rerank") else f"{url}/rerank"
    if not place:
        return ServedCritic(kind, f"trained:{url}", url)
    folder, manifest = read_manifest(Path(place))
    if manifest.engine != "encoder":
        raise ConfigurationError("a server with /rerank joins texts as an encoder reads them: use the folder of one")
    require(manifest.engine)
    sub = folder_of(folder, manifest, kind)
    name = f"trained:{url} {manifest.weights[sub.name][:12]}"
    return FolderServed(
        kind, name, url, folder=sub, max_length=manifest.max_length, passage_tokens=manifest.passage_tokens
    )


_tokenizers: dict[Path, Any] = {}


def _tokenizer(folder: Path) -> Any:
    if folder not in _tokenizers:
        from transformers import AutoTokenizer

        _tokenizers[folder] = AutoTokenizer.from_pretrained(folder)
    return _tokenizers[folder]


def _estimated(text: str) -> list[tuple[int, int]]:
    """Tokens of an unknown tokenizer: at most three characters of a word each."""
    return [
        (start, min(start + 3, word.end()))
        for word in re.finditer(r"\w+|[^\w\s]", text)
        for start in range(*word.span(), 3)
    ]
