"""Evidence in prompts and citations in answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reground.core.answers import Citation
from reground.core.evidence import Passage
from reground.core.untrusted import fence

_MARKER = re.compile(r"\[(\d+(?:\s*[,;]\s*\d+)*)\]")


@dataclass
class Evidence:
    """All passages that one question has seen, each with one number for good, so that [3] means the same everywhere."""

    passages: list[Passage] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def add(self, found: Iterable[Passage]) -> list[int]:
        """Number the passages, old ones by their old number; returns their markers."""
        markers = []
        for passage in found:
            if passage.id not in self._numbers:
                self.passages.append(passage)
                self._numbers[passage.id] = len(self.passages)
            markers.append(self._numbers[passage.id])
        return markers

    def show(self, markers: Sequence[int], *, tokens: int) -> str:
        """The fenced passages for a prompt, `tokens` tokens each at most."""
        return fence([self.passages[m - 1] for m in markers], markers=markers, tokens=tokens)

    def citations(self, text: str, *, support: Sequence[int] = ()) -> tuple[Citation, ...]:
        """What the text cites by [number], then the passages in `support` that it was revised with, in order of first use."""
        seen = dict.fromkeys([*cited_markers(text, most=len(self.passages)), *support])
        return tuple(self._cite(marker) for marker in seen)

    def _cite(self, marker: int) -> Citation:
        passage = self.passages[marker - 1]
        return Citation(
            marker=marker,
            passage_id=passage.id,
            title=passage.title,
            url=passage.url,
            quote=" ".join(passage.text.split())[:200],
        )


def cited_markers(text: str, *, most: int) -> list[int]:
    """The passage numbers that stand in square brackets in the text, without numbers that no passage has."""
    found = [int(number) for group in _MARKER.findall(text) for number in re.findall(r"\d+", group)]
    return list(dict.fromkeys(number for number in found if 1 <= number <= most))
