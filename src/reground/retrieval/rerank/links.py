"""Reranking by what titles say: questions of several steps name one document, and that one names the next.

The two best documents of the first search are searched with in turn, which finds documents that share no word with the
question. All that was found is then ordered by a weighted sum of a few features: the score and the rank of the first
search, whether the passage's title stands in the question, and whether it stands in one of the two best documents.
No model is needed, and a query costs two more searches.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from reground.core.errors import ConfigurationError, DataError
from reground.core.evidence import Pages, Passage, Retriever
from reground.core.journal import fingerprint
from reground.core.language import Number, Value
from reground.core.paths import expanded
from reground.retrieval.pages import document_ids
from reground.retrieval.titles import normal, normal_title

FILE = "links.json"
FEATURES = ("score", "rank", "named", "linked")

_LEADS = 2
"""Documents that are searched with."""
_LEAD = 2000
"""Characters of each that are the query: what follows says less of the document, and servers limit queries."""
_FOLLOWED = 20
"""Passages that each of them adds."""
_RANK = 10
"""Softens the rank: the feature is 1 at first place and 0.5 at the eleventh."""


class Weights(Value):
    """What a feature counts. The defaults were fitted to the training questions of HotpotQA."""

    score: Number = 2.49
    rank: Number = 2.14
    named: Number = 1.77
    linked: Number = 3.19


class WeightsFile(Value):
    """links.json. questions: how many questions the weights were fitted to."""

    format: Literal[1] = 1
    weights: Weights
    questions: int = 0


def linked(retriever: Retriever, place: str, *, depth: int, closes: bool = True) -> Linked:
    """The reranker with the weights of a folder, by default its own. Raises ConfigurationError, DataError."""
    made = LinkedPages if isinstance(retriever, Pages) else Linked
    return made(retriever, read_weights(Path(place)) if place else Weights(), depth=depth, closes=closes)


def read_weights(place: Path) -> Weights:
    """The weights in a folder's links.json. Raises ConfigurationError if there is none, DataError if it is broken."""
    place = expanded(str(place))
    file = place / FILE if place.is_dir() else place
    try:
        return WeightsFile.model_validate(json.loads(file.read_text(encoding="utf-8"))).weights
    except FileNotFoundError:
        raise ConfigurationError(f"there is no {file} with weights of links") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path=file) from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {error}", path=file) from None


class Linked:
    """A retriever that follows the titles in the passages of another one."""

    def __init__(self, retriever: Retriever, weights: Weights, *, depth: int, closes: bool = True) -> None:
        if depth < 1:
            raise ConfigurationError(f"a reranker needs at least one passage, not {depth}")
        self.name = f"{retriever.name} > links@{fingerprint('links', weights.model_dump_json(), str(depth))[:12]}"
        self.language: str | None = getattr(retriever, "language", None)
        self._first = retriever
        self._weights = [getattr(weights, name) for name in FEATURES]
        self._depth = depth
        self._closes = closes

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best of what the first search and those that follow it find. Raises RetrievalError."""
        found = list(await self._first.retrieve(query, k=max(k, self._depth)))
        if k < 1 or not query.strip():
            return found[: max(k, 0)]
        scored = [
            (sum(w * f for w, f in zip(self._weights, features, strict=True)), passage)
            for passage, features in await self._candidates(query, found)
        ]
        scored.sort(key=lambda pair: -pair[0])  # a stable sort: ties stay in the order of the search
        best = [passage.model_copy(update={"score": score}) for score, passage in scored]
        known = {passage.id for passage in best}
        return (best + [passage for passage in found if passage.id not in known])[:k]

    async def aclose(self) -> None:
        """Close the retriever below."""
        aclose = getattr(self._first, "aclose", None)
        if self._closes and aclose is not None:
            await aclose()

    async def _candidates(self, query: str, found: list[Passage]) -> list[tuple[Passage, tuple[float, ...]]]:
        """What the first search and those that follow it find, with its features in the order of `FEATURES`."""
        leads = _leads(found)
        tasks = [asyncio.ensure_future(self._first.retrieve(lead.text[:_LEAD], k=_FOLLOWED)) for lead in leads]
        try:
            followed = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        pool = {passage.id: passage for passage in found[: self._depth]}
        for passages in followed:
            for passage in passages:
                pool.setdefault(passage.id, passage)
        features = await asyncio.to_thread(_features, query, found, leads, list(pool.values()))
        return list(zip(pool.values(), features, strict=True))


class LinkedPages(Linked):
    """One that also opens pages."""

    async def page(self, passage_id: str, /) -> Passage | None:
        """The page of the retriever below. Raises RetrievalError."""
        assert isinstance(self._first, Pages)
        return await self._first.page(passage_id)


def _leads(found: Sequence[Passage]) -> list[Passage]:
    """The best passage of each of the best documents."""
    first: dict[str, Passage] = {}
    for passage in found:
        first.setdefault(document_ids(passage.id)[-1], passage)
        if len(first) == _LEADS:
            break
    return list(first.values())


def _features(
    query: str, found: Sequence[Passage], leads: Sequence[Passage], pool: Sequence[Passage]
) -> list[tuple[float, ...]]:
    best = found[0].score if found and found[0].score > 0 else 1.0
    place = {passage.id: rank for rank, passage in enumerate(found)}
    score = {passage.id: max(0.0, passage.score / best) for passage in found}
    texts = {passage.id: normal(passage.text) for passage in pool}
    asked = normal(query)
    holding: dict[str, int] = {}  # how many passages a title stands in
    rows: list[tuple[float, ...]] = []
    for passage in pool:
        title = normal_title(passage)
        if title and title not in holding:
            holding[title] = sum(title in text for text in texts.values())
        linking = [score[lead.id] for lead in leads if title and lead.id != passage.id and title in texts[lead.id]]
        rows.append(
            (
                score.get(passage.id, 0.0),
                _RANK / (_RANK + place[passage.id]) if passage.id in place else 0.0,
                float(bool(title) and title in asked),
                # A title that many passages hold, such as that of a country, says little.
                max(linking, default=0.0)
                / (1 + math.log(max(1, holding.get(title, 1) - (title in texts[passage.id])))),
            )
        )
    return rows
