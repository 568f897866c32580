"""What is done with passages: the text that models read, pages out of pieces, titles in texts, rankings joined.

A document that was cut has passages `id#1`, `id#2` and so on, in its order.
"""

from __future__ import annotations

import html
import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from reground.core.evidence import Passage
from reground.retrieval.chunking import TABLE_HEAD


def passage_text(passage: Passage) -> str:
    """The title on a line of its own, then the text."""
    return f"{passage.title}\n{passage.text}".strip()


MOST = 50
"""Pieces of a page. Of a longer document those nearest to the passage are taken: some 20,000 tokens by default."""

_NUMBER = re.compile(r"#(\d+)$")
_HEAD = re.compile(TABLE_HEAD + r"\n")


def document_ids(passage_id: str) -> list[str]:
    """The ids of the documents that may hold a passage: its own id, and its id without the piece's number."""
    return list(dict.fromkeys([passage_id, _NUMBER.sub("", passage_id)]))


def whole(pieces: Sequence[Passage], document: str, *, around: str, overlapping: bool) -> Passage:
    """A document's pieces, in any order, as one passage under the document's id.

    around: the passage that the kept part of a long document lies around, by its id. overlapping: whether a piece
    begins with the end of the one before.
    """
    ordered = sorted(pieces, key=lambda piece: _number(piece.id))
    place = next((i for i, piece in enumerate(ordered) if piece.id == around), 0)
    first = max(0, min(place - MOST // 2, len(ordered) - MOST))
    chosen = ordered[first : first + MOST]
    text = chosen[0].text
    for before, piece in pairwise(chosen):
        follows = overlapping and _number(piece.id) == _number(before.id) + 1
        head = _HEAD.match(piece.text)
        own = (
            piece.text[head.end() :] if head and head[0] in text and "|" in before.text.split("\n")[-1] else piece.text
        )
        sizes = range(min(len(before.text), len(own)) if follows else 0, 0, -1)
        shared = next((size for size in sizes if before.text.endswith(own[:size])), 0)
        text += own[shared:] if shared else f"\n{own}"
    return chosen[0].model_copy(update={"id": document, "text": text, "score": 0.0})


def _number(passage_id: str) -> int:
    match = _NUMBER.search(passage_id)
    return int(match[1]) if match else 0


_TOLD = 8
"""Words of a text that make it the same under other headings. A shorter one may say different things under each."""
_HEADINGS = re.compile(r"(?:\s*+#{1,6}[ \t][^\n]*+)++")


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """The passages without copies of those before them: the same words, under whatever title or Markdown heading."""
    kept: dict[tuple[str, ...], Passage] = {}
    for passage in passages:
        words = tuple(passage.text.split())
        below = tuple(_HEADINGS.sub("", passage.text, count=1).split()) if passage.text.lstrip()[:1] == "#" else ()
        kept.setdefault(below if len(below) >= _TOLD else words, passage)
    return list(kept.values())


_SHORTEST = 3  # characters of a title that is looked for; shorter ones stand everywhere

_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\([^()]*\)\Z")


def normal(text: str) -> str:
    """Words in lower case between single spaces, so that a title is found only as whole words."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def normal_title(passage: Passage) -> str:
    """The title as it would stand in a text: without what a bracket adds, as in "Mercury (planet)"; "" if too short."""
    title = normal(_BRACKETS.sub("", html.unescape(passage.title).strip()))
    return title if len(title.strip()) >= _SHORTEST else ""


Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Item]], *, k: int = 60) -> list[tuple[Item, float]]:
    """Join rankings by the sum of 1 / (k + rank) over them, ranks counted from 1 (Cormack, Clarke, Büttcher 2009).

    Best first. Ties are ordered by the items' repr, so the order of the rankings makes no difference. An item counts
    once in a ranking, at its best place. Scores lie above 0 and are at most the
    number of rankings divided by k + 1.
    """
    terms: dict[Item, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            terms.setdefault(item, []).append(1 / (k + rank))
    # Summed in one order, because floating-point sums depend on it.
    scores = {item: sum(sorted(parts)) for item, parts in terms.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], repr(pair[0])))
