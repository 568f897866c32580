"""Keeping a benchmark's solutions out of a retrieval corpus.

The rule of DeepSeek-Coder (Guo et al. 2024, section 2.4): a piece that shares a run of ten words with a solution or
test goes; a solution of three to nine words must occur whole. Shorter ones say too little to look for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

_N = 10
_SHORTEST = 3
# Words and numbers; anything else between them (space, punctuation, case) makes no difference. An ideograph is a word.
_WORD = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]|[^\W\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]+"
)


class Decontaminator:
    """Finds texts that overlap any of the given solutions."""

    def __init__(self, solutions: Iterable[str]) -> None:
        self._runs: dict[int, set[str]] = {}  # by their number of words
        for solution in solutions:
            words = _WORD.findall(solution.lower())
            if len(words) >= _SHORTEST:
                n = min(_N, len(words))
                self._runs.setdefault(n, set()).update(_runs(words, n))

    @property
    def fingerprint(self) -> str:
        """Changes with the runs of words that are looked for."""
        digest = hashlib.blake2b(digest_size=8)
        for _, runs in sorted(self._runs.items()):
            digest.update("".join(f"{run};" for run in sorted(runs)).encode("utf-8", "replace"))
        return digest.hexdigest()

    def overlap(self, text: str) -> str | None:
        """The first run of words that the text shares with a solution, or None."""
        words = _WORD.findall(text.lower())
        shared = (run for n, runs in sorted(self._runs.items(), reverse=True) for run in _runs(words, n) if run in runs)
        return next(shared, None)


def _runs(words: Sequence[str], n: int) -> Iterator[str]:
    """Every run of `n` words."""
    return (" ".join(words[start : start + n]) for start in range(len(words) - n + 1))
