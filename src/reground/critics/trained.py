"""A critic that was fitted to trees of planning (CR-Planner, section 2.3): `trained:FOLDER` or `trained:URL`.

FOLDER is what `reground train critics` wrote. Weights are loaded at the first score and shared by all critics of the
folder; calls that wait at the same time are computed together. A critic has documents cut where those of its training
were, whatever the planner shows the generator.

URL is a server with /v1/rerank (llama.cpp, vLLM) that serves the weights; `URL#FOLDER` cuts the texts as FOLDER says.
Servers have their own scales, so their scores decide alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any
from weakref import WeakValueDictionary

from reground.core import http
from reground.core.concurrency import gather
from reground.core.errors import ConfigurationError, ModelError
from reground.core.journal import fingerprint
from reground.core.language import LanguageModel
from reground.core.run import Critic, Run
from reground.core.trajectory import Pair
from reground.critics import Kind, grouped, in_place
from reground.critics.scorers import (
    FolderScorer,
    Queue,
    encoder_texts,
    folder_of,
    mix_of,
    read_manifest,
    require,
    scored_text,
)
from reground.critics.simple import SENTENCES, STAGES

FILES = True
"""A run's identity holds the critics' own names, because the files may change while the name stays."""


@dataclass(frozen=True)
class TrainedCritic:
    """Weights in this process.

    name: with a fingerprint of the weights. passage_tokens: where documents are cut. mix: what the text's score and
    what else is known of a candidate count; empty where the text decides alone. cosines: whether a score is `SCALE`
    times a cosine, as embedders give it.
    """

    kind: Kind
    name: str
    passage_tokens: int
    queue: Queue = field(repr=False, compare=False)
    mix: Mapping[str, float] = field(default_factory=dict)
    cosines: bool = False

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The model's raw scores; sigmoid of a difference estimates how likely one candidate is the better one."""
        return await self.queue.score([(self.kind, pair) for pair in pairs])

    def weigh(self, scores: Sequence[float], candidates: Sequence[Mapping[str, Any]]) -> list[float]:
        """The scores of siblings joined with what their data say of them, in the order in which they were offered."""
        return weighed(self.mix, scores, features(self.kind, candidates))


_queues: WeakValueDictionary[tuple[Path, str], Queue] = WeakValueDictionary()
"""Each folder's queue, one as long as a critic holds it: planners are set up again and again."""


def create(kind: Kind, *, model: LanguageModel, detail: str) -> Critic:
    """The critic of a kind. Raises ConfigurationError for a folder without one, MissingExtra where it cannot run."""
    if not detail:
        raise ConfigurationError("the critic trained needs a folder: trained:FOLDER, or a server: trained:http://...")
    if detail.startswith(("http://", "https://")):
        return served(kind, detail)
    folder, manifest = read_manifest(Path(detail))
    sub = folder_of(folder, manifest, kind)
    require(manifest.engine)
    name = f"trained:{manifest.engine} {manifest.weights[sub.name][:12]}"
    mix = mix_of(manifest, kind)
    name += f" mix {fingerprint('mix', json.dumps(mix, sort_keys=True))[:8]}" if mix else ""
    folder = folder.resolve()
    key = (folder, manifest.model_dump_json())
    queue = _queues.get(key) or _queues.setdefault(key, Queue(lambda: FolderScorer(folder, manifest)))
    cosines = manifest.engine == "embedder"
    return TrainedCritic(kind, name, manifest.passage_tokens, queue, mix, cosines)


FEATURES: dict[Kind, tuple[str, ...]] = {
    "subgoal": ("rank", *(f"{stage}>{goal}" for stage in STAGES for goal in SENTENCES)),
    "rationale": ("logprob",),
    "query": ("logprob",),
    "doc": ("score", "rank"),
}
"""What is known of a candidate besides its text, as numbers. One function makes them of siblings in training, planning
and reranking. Each is taken less its mean over the siblings that have it, so one that is missing counts as 0.

score: the retriever's score as a share of the best sibling's. rank: one over the place in the planner's or the
retriever's order. logprob: the generator's mean log-probability of a token. ROOT>REASON and so on: whether this is the
sub-goal, in this state; a critic of sub-goals then begins with the best constant ones, which texts improve on.
"""
TEXT = "text"
"""The name of the weight of the text's own score."""


def features(kind: Kind, candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The numbers of siblings, in the order in which they were offered.

    candidates: what their data say: `score`, `logprob`, or `stage` and `goal`. Without a positive score there is no
    share of the best.
    """
    best = max((_number(each, "score") or 0.0 for each in candidates), default=0.0)
    rows: list[dict[str, float]] = []
    for place, each in enumerate(candidates):
        score = _number(each, "score")
        row = {
            "rank": 1 / (1 + place),
            "logprob": _number(each, "logprob"),
            "score": max(0.0, score / best) if score is not None and best > 0 else None,
            **{f"{each.get('stage')}>{goal}": float(goal == each.get("goal")) for goal in SENTENCES},
        }
        rows.append({name: value for name in FEATURES[kind] if (value := row.get(name)) is not None})
    values = {name: [each[name] for each in rows if name in each] for name in FEATURES[kind]}
    return [{name: value - fmean(values[name]) for name, value in each.items()} for each in rows]


def weighed(weights: Mapping[str, float], scores: Sequence[float], known: Sequence[Mapping[str, float]]) -> list[float]:
    """The scores of texts joined with what else is known of them; without weights the scores as they are."""
    if not weights:
        return list(scores)
    return [
        weights.get(TEXT, 1.0) * score + sum(weights.get(name, 0.0) * value for name, value in each.items())
        for score, each in zip(scores, known, strict=True)
    ]


def _number(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


KEY = "RERANK_API_KEY"
"""The environment variable that holds the server's key, if it asks for one."""

_ROOM = 480  # tokens, for servers whose limit is not known: most encoders read 512
_ATTEMPTS, _WAIT, _SECONDS, _MOST_BYTES = 5, 0.5, 120.0, 8 << 20


@dataclass(frozen=True)
class ServedCritic:
    """Asks a server for the scores of each context's candidates.

    name: with the weights' fingerprint where the folder is known; a bare address says nothing of its weights. read:
    what is known and the candidate, as the server gets them. passage_tokens: where documents are cut, if it is known.
    """

    name: str
    url: str
    read: Callable[[Pair], tuple[str, str]]
    passage_tokens: int | None = None

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The server's scores. Raises ModelError, TransientModelError after several attempts, AuthenticationError."""
        texts = await asyncio.to_thread(lambda: list(map(self.read, pairs)))
        groups = grouped(known for known, _ in texts)
        asks = [partial(self._ask, known, [texts[at][1] for at in places]) for known, places in groups.items()]
        scores = await gather(*(http.persist(ask, _ATTEMPTS, base=_WAIT) for ask in asks))
        return in_place(zip(groups.values(), scores, strict=True))

    async def _ask(self, known: str, candidates: Sequence[str]) -> list[float]:
        import aiohttp

        headers, timeout = http.headers_with(http.key_in(KEY)), aiohttp.ClientTimeout(total=_SECONDS, sock_connect=15)
        body = {"model": "critic", "query": known, "documents": [candidate or " " for candidate in candidates]}
        async with aiohttp.ClientSession(headers=headers, auto_decompress=False, timeout=timeout) as session:
            status, fields, reply = await http.post(session, self.url, body, most=_MOST_BYTES)
        if status != 200:
            raise http.refusal(self.url, status, fields, reply, KEY)
        return _scores(reply, len(candidates), self.url)


def _scores(body: bytes, count: int, url: str) -> list[float]:
    """The scores in the order of the candidates. Raises ModelError for a reply of another shape."""
    try:
        scores: dict[int, float] = {}
        for entry in http.read_json(body)["results"]:
            scores[int(entry["index"])] = float(entry["relevance_score"])
        return [scores[place] for place in range(count)]
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ModelError(f"{url} gave no score for each of {count} candidates; does the server rerank?") from None


def served(kind: Kind, detail: str) -> ServedCritic:
    """The critic of `URL` or `URL#FOLDER`. Raises ConfigurationError."""
    url, _, place = detail.partition("#")
    http.check_address(url, "the critic's address")
    if not re.match(r"https?://[^/@\s]+(/|$)", url):
        raise ConfigurationError("the critic's address must look like http://localhost:8080/v1")
    url = url.rstrip("/")
    url = url if url.endswith("/rerank") else f"{url}/rerank"
    if not place:
        return ServedCritic(f"trained:{url}", url, lambda pair: scored_text(kind, pair, room=_ROOM, spans=_estimated))
    folder, manifest = read_manifest(Path(place))
    if manifest.engine != "encoder":
        raise ConfigurationError("a server with /rerank joins texts as an encoder reads them: use the folder of one")
    require(manifest.engine)
    sub = folder_of(folder, manifest, kind)
    name = f"trained:{url} {manifest.weights[sub.name][:12]}"

    def read(pair: Pair) -> tuple[str, str]:
        """The texts cut as in training; the tokenizer is loaded by the first."""
        return encoder_texts(_tokenizer(sub), manifest.max_length)(kind, pair)

    return ServedCritic(name, url, read, manifest.passage_tokens)


@cache
def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def _estimated(text: str) -> list[tuple[int, int]]:
    """Tokens of an unknown tokenizer: at most three characters of a word each."""
    return [
        (start, min(start + 3, word.end()))
        for word in re.finditer(r"\w+|[^\w\s]", text)
        for start in range(*word.span(), 3)
    ]
