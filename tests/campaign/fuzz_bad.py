"""Bad values and ways to spoil what is good; all of it drawn from the attempt's own random numbers."""

from __future__ import annotations

import json
import random
import traceback
from typing import Any, TypeVar

T = TypeVar("T", str, bytes)
HUGE = 99999999999999999999

TEXTS = (
    "", " ", "\n", "\t\x00", "\x00", "\x1b[31m", "\u202e", "\ud800", "x\udcff", "\ufeff", "x" * 5_000, "é" * 300, "的", "🧪",
    "null", "none", "true", "NaN", "inf", "-inf", "1e999", "-1", "0", "0.5", "1,2,3", ",", ",,", "[", "]", "{}", "[[1]]",
    "{a = 1}", '"', "'", "\\", "../..", "/", "/etc", "/dev/null", "~", "absent/none", "a:b", ":", "=", "a=b", "--", "-",
    "%s", "{0}", "{}", "${HOME}", "<|im_end|>", "1-", "5-1", "0x10", "١٢", "²", "1_000", "1 000", str(HUGE), f"-{HUGE}",
    "1" * 5_000, "9" * 400, "k", "openai/", "/x", "openai/mock", "hf/", "gguf/", "gguf/absent.gguf", "http://", "ftp://x",
    "http://[::1", "http://x:99999", "rar", "rar+", "+paper", "a.py", "prompted:", "random:x",
)  # fmt: skip

VALUES = (
    None, True, False, 0, 1, -1, 5, HUGE, -HUGE, 2**31, 2**63, 10**6, 10**400, 0.5, -0.5, 1e308, 5e-324,
    float("inf"), float("-inf"), float("nan"), [], {}, [[]], [{}], [None], [1], ["a"], {"a": 1}, {"": None},
    {"id": "x"}, [True], [0.5, "x"], {"question": "x"},
)  # fmt: skip


def nested(depth: int, chance: random.Random) -> Any:
    """Lists and objects in one another."""
    value: Any = "bottom"
    for _ in range(depth):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def value(chance: random.Random) -> Any:
    """Any JSON value that a reader may not expect."""
    if chance.random() < 0.05:
        return nested(chance.choice((5, 70, 150, 300)), chance)
    return chance.choice(TEXTS) if chance.random() < 0.4 else chance.choice(VALUES)


def spoiled(good: Any, chance: random.Random) -> Any:
    """A copy of JSON data with one place of it changed: dropped, renamed, doubled or of another type."""
    if isinstance(good, dict) and good and chance.random() < 0.9:
        key, other = chance.choice(list(good)), dict(good)
        kept = other.pop(key)
        match chance.randrange(8):
            case 0:
                return other
            case 1:
                return {**other, chance.choice((key + "s", key.upper(), "", "x")): kept}
            case 2 | 3:
                return {**other, key: value(chance)}
            case _:
                return {**good, key: spoiled(kept, chance)}
    if isinstance(good, list) and good and chance.random() < 0.7:
        at = chance.randrange(len(good))
        match chance.randrange(5):
            case 0:
                return good[:at] + good[at + 1 :]
            case 1:
                return good[:at] + good[at:] * 2
            case _:
                return [*good[:at], spoiled(good[at], chance), *good[at + 1 :]]
    if isinstance(good, str) and good and chance.random() < 0.6:
        return text(good, chance)
    return value(chance)


def _shortened(good: T, a: int, b: int, case: int) -> T:
    """The text or bytes cut off at a (case 0), without the stretch from a to b (1), or with it twice (2)."""
    return (good[:a], good[:a] + good[b:], good[:b] + good[a:])[case]


def text(good: str, chance: random.Random) -> str:
    """A text with a stretch of it cut out, doubled, or changed for something bad."""
    a, b = sorted(chance.randrange(len(good) + 1) for _ in range(2))
    match chance.randrange(5):
        case 0 | 1 | 2 as case:
            return _shortened(good, a, b, case)
        case 3:
            return good[:a] + chance.choice(TEXTS) + good[b:]
        case _:
            return good[:a] + chance.choice(TEXTS) + good[a:]


def data(good: bytes, chance: random.Random) -> bytes:
    """Bytes with some of them changed, cut out, doubled or put in."""
    a, b = sorted(chance.randrange(len(good) + 1) for _ in range(2))
    match chance.randrange(9):
        case 0 | 1 | 2 as case:
            return _shortened(good, a, b, case)
        case 3:
            return good[:a] + chance.randbytes(chance.choice((1, 2, 40))) + good[a:]
        case 4:
            return (
                good[:a]
                + chance.choice((b"\xff", b"\xed\xa0\x80", b"\x00", b"\xef\xbb\xbf", b"\r", b"\n\n"))
                + good[a:]
            )
        case 5:
            return b""
        case 6:
            more = (b"[" * 300, b"[" * 5_000, b"[" * 200_000, b'{"a":' * 5_000, b"1" * 5_000, b"1e999", b"NaN", b"-")
            return good[:a] + chance.choice(more) + good[a:]
        case 7:
            return chance.randbytes(chance.choice((1, 100, 5_000)))
        case _:
            changed = bytearray(good)
            for _ in range(chance.choice((1, 3, 20))):
                if changed:
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)


def line(record: Any, chance: random.Random) -> bytes:
    """A line of JSON with a record that may be spoiled, its bytes now and then too."""
    if chance.random() < 0.75:
        record = spoiled(record, chance)
    written = json.dumps(record, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return data(written, chance) if chance.random() < 0.25 else written


def short(given: object) -> str:
    """What was tried, for the record."""
    said = ascii(given)
    return said if len(said) <= 600 else f"{said[:450]}...{said[-150:]}"


def uncaught(error: BaseException) -> str:
    """An exception that should not have come through, with where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "reground" in frame.filename] or frames
    where = ", ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in own[-3:])
    return f"{type(error).__name__}: {short(str(error))[:200]} at {where}"
