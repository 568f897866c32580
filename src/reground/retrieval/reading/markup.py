"""The text of a paragraph of Office: raised and lowered characters, equations and links as plain text says them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from reground.retrieval.reading.archive import attribute, local, named, setting
from reground.retrieval.reading.formulas import grouped, lowered, raised, root_of

_BREAKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SKIPPED = frozenset(("Fallback", "del", "moveFrom", "pPr", "rPr", "rt", "ctrlPr", "sectPr"))
"""A second copy for old programs, text that was struck out, properties, and reading aids for Chinese characters."""
_LONGEST_ADDRESS = 500


class Piece(NamedTuple):
    """A piece of text. sign: ^ where it is raised, _ where it is lowered."""

    text: str
    sign: str = ""


class Context(NamedTuple):
    """What a paragraph refers to. signs: of the styles that raise or lower. links, drawings: addresses and lines, by
    id."""

    signs: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    drawings: Mapping[str, str] = {}


_NONE = Context()


def joined(pieces: Iterable[Piece]) -> str:
    """A text in which 10 with a raised 6 is 10^6, 101 with a lowered 2 is 101_2, and 1st stays so."""
    said: list[str] = []
    for sign, group in groupby(
        (each for each in pieces if each.text), key=lambda piece: piece.sign if piece.text.strip() else ""
    ):
        text = "".join(piece.text for piece in group)
        before = said[-1][-1:] if said else ""
        said.append(_signed(sign, text, before) if sign else text)
    return "".join(said)


def _signed(sign: str, text: str, before: str) -> str:
    shift = lowered if sign == "_" else raised
    return shift(text.strip(), before.strip()) + " " * text[-1].isspace()


def paragraph(element: Any, context: Context = _NONE) -> str:
    """The text of a paragraph; those inside it, such as of a text box, on lines of their own."""
    return joined(_pieces(element, context, "")).strip()


def _pieces(element: Any, context: Context, sign: str) -> Iterator[Piece]:
    for each in element:
        name = local(each)
        if name in _SKIPPED:
            continue
        if name == "t":
            yield Piece(each.text or "", sign)
        elif name in _BREAKS:
            yield Piece(_BREAKS[name])
        elif name == "oMath":
            yield Piece(_term(each))
        elif name in ("chart", "relIds"):
            yield Piece("\n" + context.drawings.get(attribute(each, "id") or attribute(each, "dm"), ""))
        else:
            if name == "p":
                yield Piece("\n")
            yield from _pieces(each, context, run_sign(each, context) if name in ("r", "fld") else sign)
            yield Piece(behind_link(_address(each, context), each))


def _address(element: Any, context: Context) -> str:
    """The address of a link of Word, or of a run of PowerPoint."""
    name = local(element)
    if not context.links or name not in ("r", "hyperlink"):
        return ""
    link = element if name == "hyperlink" else next(named(element, "hlinkClick"), None)
    return "" if link is None else context.links.get(attribute(link, "id"), "")


def behind_link(address: str, element: Any) -> str:
    """What stands behind a link: its address in brackets, unless its text has it or it leads to no other place."""
    address = address.removeprefix("mailto:")
    is_said = (":" not in address and "@" not in address) or address.rstrip("/") in "".join(element.itertext())
    return "" if is_said or len(address) > _LONGEST_ADDRESS else f" ({address})"


def run_sign(run: Any, context: Context = _NONE) -> str:
    """^ for a raised run of Word, PowerPoint or Excel, _ for a lowered one, else ""."""
    properties = next((each for each in run if local(each) == "rPr"), None)
    if properties is None:
        return ""
    shift = attribute(properties, "baseline").removesuffix("%") or "0"
    if shift.lstrip("-").strip("0.").isdecimal():
        return "_" if shift.startswith("-") else "^"
    return sign_of(setting(properties, "vertAlign")) or context.signs.get(setting(properties, "rStyle"), "")


def sign_of(said: str) -> str:
    """The sign of `superscript` and `subscript`."""
    return {"superscript": "^", "subscript": "_"}.get(said, "")


def _term(element: Any) -> str:
    """An equation, or a part of one, in one line."""
    said = ""
    for each in element:
        name = local(each)
        if name == "t":
            said += each.text or ""
        elif name not in _SKIPPED and not name.endswith("Pr"):
            said += _TERMS[name](each) if name in _TERMS else _term(each)
    return said


def _part(element: Any, name: str) -> str:
    return next((_term(each).strip() for each in element if local(each) == name), "")


def _parts(element: Any, name: str) -> list[str]:
    return [_term(each).strip() for each in element if local(each) == name]


def _fraction(element: Any) -> str:
    over = " over " if setting(element, "type") == "noBar" else "/"
    return over.join(grouped(_part(element, name)) for name in ("num", "den"))


def _indexed(element: Any) -> str:
    """A term with a power, an index or both, also before it or as limits."""
    low, high = (_part(element, "sub"), _part(element, "sup"))
    limit = _part(element, "lim")
    low, high = (low, limit or high) if local(element) == "limUpp" else (limit or low, high)
    signs = (f"_{grouped(low)}" if low else "") + (f"^{grouped(high)}" if high else "")
    base = grouped(_part(element, "e"))
    return signs + base if local(element) == "sPre" else base + signs


def _root(element: Any) -> str:
    return root_of(_part(element, "e"), _part(element, "deg"))


def _sum(element: Any) -> str:
    low, high = (_part(element, name) for name in ("sub", "sup"))
    sign = setting(element, "chr") or "∫"
    limits = (f"_{grouped(low)}" if low else "") + (f"^{grouped(high)}" if high else "")
    return f"{sign}{limits} {_part(element, 'e')}"


def _bracketed(element: Any) -> str:
    properties = next((each for each in element if local(each) == "dPr"), ())
    said = {local(each): attribute(each, "val") for each in properties}
    inner = said.get("sepChr", "|").join(_parts(element, "e"))
    return f"{said.get('begChr', '(')}{inner}{said.get('endChr', ')')}"


def _matrix(element: Any) -> str:
    return "[" + "; ".join(", ".join(_parts(row, "e")) for row in element if local(row) == "mr") + "]"


def _function(element: Any) -> str:
    return f"{_part(element, 'fName')} {grouped(_part(element, 'e'))}"


def _equations(element: Any) -> str:
    return "; ".join(_parts(element, "e"))


_TERMS = {
    "f": _fraction, "rad": _root, "nary": _sum, "d": _bracketed, "m": _matrix, "func": _function, "eqArr": _equations,
    **dict.fromkeys(("sSup", "sSub", "sSubSup", "sPre", "limLow", "limUpp"), _indexed),
}  # fmt: skip
