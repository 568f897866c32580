"""Numbers raised and lowered, fractions, roots and pictures, written so that they stay apart: 10^6, x_(i+1), √16."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

_LONGEST_PICTURE = 500
_LONGEST = 20  # characters of an exponent; a longer text is a remark
_DEEPEST = 50  # levels of a formula that are read as one
_INDEX = str.maketrans("0123456789n", "⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ")
_UNSEEN = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b"))  # signs for times and the like
_NOT_SHOWN = frozenset(("annotation", "annotation-xml", "mphantom", "mprescripts", "none"))


def raised(text: str, base: str) -> str:
    """What stands for a raised text behind a character. Signs of notes and the ends of ordinals, as in 1st, need no
    mark."""
    is_ordinal = base.isdigit() and text.isalpha() and len(text) > 1
    if not base or is_ordinal or not any(map(str.isalnum, text)):
        return text
    return f" {text}" if len(text) > _LONGEST else f"^{grouped(text)}"


def noted(text: str, base: str) -> str:
    """The mark of a note, which is no exponent: 1931[1]."""
    return text if not base or text.startswith("[") else f"[{text}]"


def lowered(text: str, base: str) -> str:
    """What stands for a lowered text behind a character: H2O, but 101_2 and x_(i+1)."""
    if not base or not text or len(text) > _LONGEST:
        return text
    is_plain = text.isalnum() and not (base.isdigit() and text[0].isdigit())
    return text if is_plain or not base.isalnum() else f"_{grouped(text)}"


_FILE_NAME = re.compile(r"\.\w{3,4}\Z")


def pictured(said: str) -> str:
    """What is said of a picture to those who do not see it; "" where that is the name of a file."""
    said = " ".join(said.split())[:_LONGEST_PICTURE]
    return f"[picture: {said}]" if said and not _FILE_NAME.search(said) else ""


def grouped(text: str) -> str:
    """A text in brackets, if it is more than one number, sign or name."""
    bare = text.lstrip("+-−√").rstrip("+-−").replace(".", "").replace(",", "")
    is_bracketed = text.startswith("(") and text.find(")") == len(text) - 1
    return text if bare.isalnum() or len(text) < 2 or is_bracketed else f"({text})"


def root_of(text: str, index: str = "") -> str:
    """A root: √16, ³√8."""
    return f"{index.translate(_INDEX)}√{grouped(text)}"


_SIGNS = {  # what stands between the parts of an element of MathML
    "mfrac": "/", "msup": "^", "mover": "^", "msub": "_", "munder": "_", "msubsup": "_^", "munderover": "_^",
}  # fmt: skip
_LISTS = {"mtable": "{}", "mtr": "{}", "mfenced": "({})"}


def formula(element: Any, depth: int = 0) -> str:
    """A formula of MathML on one line."""
    inner = [each for each in element if isinstance(each.tag, str)]
    kind = local(element)
    if not inner or depth > _DEEPEST:
        return " ".join("".join(element.itertext()).translate(_UNSEEN).split())
    if kind == "semantics":  # the same in several ways
        inner = inner[:1]
    parts = [formula(each, depth + 1) for each in inner if local(each) not in _NOT_SHOWN]
    return _formed(kind, parts)


def _formed(kind: str, parts: Sequence[str]) -> str:
    signs = _SIGNS.get(kind, "")
    if signs and len(parts) == len(signs) + 1:
        return grouped(parts[0]) + "".join(sign + grouped(part) for sign, part in zip(signs, parts[1:], strict=True))
    if kind == "mroot" and len(parts) > 1:
        return root_of(*parts[:2])
    if kind in _LISTS:
        return _LISTS[kind].format(("; " if kind == "mtable" else ", ").join(parts))
    pieces: list[str] = []
    for part in filter(None, parts):  # in a row; two that would become one word or one number stand apart
        is_joined = bool(pieces) and pieces[-1][-1].isalnum() and (part[0].isalnum() or part[0] == "√")
        pieces.append(f" {part}" if is_joined else part)
    return root_of("".join(pieces)) if kind == "msqrt" else "".join(pieces)


def local(element: Any) -> str:
    """The name of an element without the space that it is in, as in o:p."""
    return _local(element.tag)


@lru_cache(1000)
def _local(tag: Any) -> str:
    return str(tag).rpartition("}")[2].rpartition(":")[2]
