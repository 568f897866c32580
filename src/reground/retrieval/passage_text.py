"""The text of a passage as embedders and rerankers read it, in an index and in training alike."""

from __future__ import annotations

from reground.core.evidence import Passage


def passage_text(passage: Passage) -> str:
    """The title on a line of its own, then the text."""
    return f"{passage.title}\n{passage.text}".strip()
