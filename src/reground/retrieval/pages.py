"""Rebuilds the page of a passage from the pieces in the index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from reground.core.evidence import Passage

MOST = 50
"""Pieces of a page. Of a longer document those nearest to the passage are taken: some 20,000 tokens by default."""

_NUMBER = re.compile(r"#(\d+)$")


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
    kept = ordered[first : first + MOST]
    text = kept[0].text
    for before, piece in pairwise(kept):
        follows = overlapping and _number(piece.id) == _number(before.id) + 1
        shared = _shared(before.text, piece.text) if follows else 0
        text += piece.text[shared:] if shared else f"\n{piece.text}"
    return kept[0].model_copy(update={"id": document, "text": text, "score": 0.0})


def _number(passage_id: str) -> int:
    found = _NUMBER.search(passage_id)
    return int(found[1]) if found else 0


def _shared(before: str, after: str) -> int:
    """The length of the longest end of one text that the other begins with."""
    sizes = range(min(len(before), len(after)), 0, -1)
    return next((size for size in sizes if before.endswith(after[:size])), 0)
