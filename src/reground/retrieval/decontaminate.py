"""Keeping a benchmark's solutions out of a retrieval corpus.

The rule of DeepSeek-Coder (Guo et al. 2024, section 2.4): a piece that shares a run of ten words with a solution or
test goes; a solution of three to nine words must occur whole. Shorter ones say too little to look for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

_N = 10
_SHORTEST = 3
# Words and numbers; anything else between them (space, punctuation, case) makes no difference. An ideograph is a word.
_WORD = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]|[^\W\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]+"
)


class Decontaminator:
    """Finds texts that overlap any of the given solutions. Holds a hash of each n-gram, not the solutions."""

    def __init__(self, solutions: Iterable[str]) -> None:
        self._hashes: dict[int, set[int]] = {}
        for solution in solutions:
            words = _WORD.findall(solution.lower())
            if len(words) >= _SHORTEST:
                n = min(_N, len(words))
                self._hashes.setdefault(n, set()).update(_ngrams([*map(_code, words)], n))

    @property
    def fingerprint(self) -> str:
        """Changes with the n-grams that are looked for."""
        digest = hashlib.blake2b(digest_size=8)
        for n, hashes in sorted(self._hashes.items()):
            digest.update(f"{n}:{len(hashes)}:{sum(hashes)};".encode())
        return digest.hexdigest()

    def overlap(self, text: str) -> str | None:
        """The first run of words that the text shares with a solution, or None."""
        words = _WORD.findall(text.lower())
        codes = [*map(_code, words)]
        for n, hashes in sorted(self._hashes.items(), reverse=True):
            for place, hash_ in enumerate(_ngrams(codes, n)):
                if hash_ in hashes:
                    return " ".join(words[place : place + n])
        return None


_MODULUS = (1 << 61) - 1
_BASE = 1_000_003


@lru_cache(maxsize=1 << 17)
def _code(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=7).digest(), "big") + 1


def _ngrams(codes: Sequence[int], n: int) -> Iterator[int]:
    """The rolling hash of every run of `n` words, by place (Karp and Rabin 1987)."""
    leaving = pow(_BASE, n, _MODULUS)
    hash_ = 0
    for place, code in enumerate(codes):
        hash_ = (hash_ * _BASE + code - (codes[place - n] * leaving if place >= n else 0)) % _MODULUS
        if place >= n - 1:
            yield hash_
