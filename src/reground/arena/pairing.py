"""Which pair a judge sees next, and on which side each answer stands: drawn by the file's secret."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Set


def drawn(secret: bytes, *parts: str) -> bytes:
    """32 bytes that are the same for the same secret and parts, and that nobody else can foretell."""
    message = b"".join(len(data).to_bytes(8, "little") + data for data in (part.encode() for part in parts))
    return hmac.digest(secret, message, "sha256")


def is_turned(secret: bytes, judge: str, pair: str, round: int) -> bool:
    """Whether a judge sees the pair's second answer as A. Drawn once for each judge, pair and round."""
    return bool(drawn(secret, "side", judge, pair, str(round))[0] & 1)


def next_pair(
    pairs: Iterable[str],
    *,
    voted: Set[str],
    skipped: Mapping[str, int],
    counts: Mapping[str, int],
    secret: bytes,
    judge: str,
    round: int,
) -> str | None:
    """The pair for a judge to see next; None when all are voted on.

    Those that the judge skipped come last, the one skipped longest ago first. Of the others those with the fewest votes
    come first, in an order drawn for each judge and round.
    """

    def place(pair: str) -> tuple[int, int, bytes]:
        return skipped.get(pair, 0), counts.get(pair, 0), drawn(secret, "order", judge, pair, str(round))

    return min((pair for pair in pairs if pair not in voted), key=place, default=None)
