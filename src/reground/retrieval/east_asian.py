"""Tells apart the encodings of Japanese, Korean and Chinese by what a text would hold in each.

They overlap: most bytes of one are characters of all the others, and statistics of a sentence or two take Japanese for
Korean or Thai. But a text in the wrong one is odd: Japanese prose is a third kana and more, Korean is hangul
throughout, and Chinese keeps to the characters that its standards put first because they are frequent.
"""

from __future__ import annotations

from collections.abc import Callable

_FEWEST = 6
"""Characters beyond ASCII below which nothing is said."""
_KANA, _HALF_KANA, _HANGUL, _FREQUENT, _HAN = 0.2, 0.05, 0.9, 0.85, 0.6
_CUT = 3
"""Bytes at the end of a sample that may be a part of a character."""

_Test = Callable[[str, bytes], bool]


def east_asian(sample: bytes) -> str:
    """Python's name of the encoding that a sample of a text is in beyond doubt; "" where that cannot be said."""
    japanese = {name: _share(sample, name, _is_kana) for name in ("cp932", "euc_jp")}
    likely = max(japanese, key=japanese.__getitem__)
    if japanese[likely] >= _KANA and _share(sample, likely, _is_half_kana) <= _HALF_KANA:
        return likely
    if _share(sample, "cp949", _is_common_hangul) >= _HANGUL:
        return "cp949"
    for name, is_frequent in (("gb18030", _is_frequent_in_gb), ("big5", _is_frequent_in_big5)):
        han = _share(sample, name, _is_han)
        if han >= _HAN and _share(sample, name, is_frequent) >= _FREQUENT * han:
            return name
    return ""


def _share(sample: bytes, name: str, is_so: _Test) -> float:
    """The share of a text's characters beyond ASCII that pass a test; 0 where it is no text in this encoding."""
    text = _decoded(sample, name)
    beyond = [char for char in text if char > "\x7f"]
    if len(beyond) < _FEWEST:
        return 0.0
    return sum(is_so(char, char.encode(name)) for char in beyond) / len(beyond)


def _decoded(sample: bytes, name: str) -> str:
    for cut in range(_CUT + 1):
        try:
            return sample[: len(sample) - cut].decode(name)
        except UnicodeDecodeError as error:
            if error.start < len(sample) - cut - _CUT:
                return ""
    return ""


def _is_kana(char: str, code: bytes) -> bool:
    return "\u3041" <= char <= "\u30fe"


def _is_half_kana(char: str, code: bytes) -> bool:
    return "\uff61" <= char <= "\uff9f"


def _is_common_hangul(char: str, code: bytes) -> bool:
    return "\uac00" <= char <= "\ud7a3" and min(code) >= 0xA1


def _is_han(char: str, code: bytes) -> bool:
    return "\u4e00" <= char <= "\u9fff"


def _is_frequent_in_gb(char: str, code: bytes) -> bool:
    return _is_han(char, code) and len(code) == 2 and 0xB0 <= code[0] <= 0xD7 and code[1] >= 0xA1


def _is_frequent_in_big5(char: str, code: bytes) -> bool:
    return _is_han(char, code) and len(code) == 2 and 0xA4 <= code[0] <= 0xC6
