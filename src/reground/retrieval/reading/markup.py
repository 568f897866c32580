"""The text of a paragraph of Office: what is raised, equations, links and ticks as plain text says them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Any, NamedTuple

from reground.retrieval.reading.archive import attribute, named, number_in, setting
from reground.retrieval.reading.formulas import grouped, local, lowered, pictured, raised, root_of

_SKIPPED = frozenset(("Fallback", "del", "moveFrom", "pPr", "rPr", "rt", "ctrlPr", "sectPr"))
"""A second copy for old programs, text that was struck out, properties, and reading aids for Chinese characters."""
_LONGEST_ADDRESS = 500
_TRIED = 100  # properties of a run, and pieces of text in which an address may stand
HIDDEN = "hidden"


class Piece(NamedTuple):
    """A piece of text. sign: ^ where it is raised, _ where it is lowered."""

    text: str
    sign: str = ""


class Context(NamedTuple):
    """What a paragraph refers to. signs: of the styles that raise or lower. links, drawings: addresses and lines, by
    id. fields: the codes of those fields of Word that have begun and not ended."""

    signs: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    drawings: Mapping[str, str] = {}
    fields: list[str] | None = None


_NONE = Context()


def joined(pieces: Iterable[Piece]) -> str:
    """A text in which 10 with a raised 6 is 10^6, 101 with a lowered 2 is 101_2, and 1st stays so."""
    said: list[str] = []
    for sign, group in groupby(
        (each for each in pieces if each.text), key=lambda piece: piece.sign if piece.text.strip() else ""
    ):
        text = "".join(piece.text for piece in group)
        before = said[-1][-1:].strip() if said else ""
        if sign:
            shift = lowered if sign == "_" else raised
            text = shift(text.strip(), before) + " " * text[-1].isspace()
        said.append(text)
    return "".join(said)


def paragraph(element: Any, context: Context = _NONE) -> str:
    """The text of a paragraph; those inside it, such as of a text box, on lines of their own."""
    return joined(_pieces(element, context, "")).strip()


def _pieces(element: Any, context: Context, sign: str) -> Iterator[Piece]:
    for each in element:
        name = local(each)
        if name in _SAID:
            yield Piece(_SAID[name](each, context), sign if name in ("t", "sym") else "")
        elif name not in _SKIPPED:
            own = run_sign(each, context) if name in ("r", "fld") else sign
            if own == HIDDEN:
                continue
            if name == "p":
                yield Piece("\n")
            yield from _pieces(each, context, own)
            if address := _address(each, name, context):
                yield Piece(behind_link(address, each))


_FIRST_SYMBOL, _LAST_SYMBOL = "\uf020", "\uf0ff"
_CODE = re.compile("[0-9A-Fa-f]{2,4}")
_SYMBOLS = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼" + " " * 34 +
    "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑          〉∫"
)  # fmt: skip
_SIGNS = {
    "Symbol": dict(enumerate(_SYMBOLS, start=32)),
    "Wingdings": dict(zip(b"(*lnox\xa7\xa8\xdf\xe0\xe8\xf0\xfb\xfc\xfd\xfe", "☎✉●■☐☒▪☐←→➔⇨✗✓☒☑", strict=True)),
    "Wingdings 2": dict(zip(b"OPQRST\xa3", "✗✓☒☑☒☒☐", strict=True)),
}
"""What fonts of signs show for their characters; the rest are ornaments."""


def symbol(char: str, font: str) -> str:
    """What a character of a font of signs shows; itself where that is not known."""
    is_known = font in _SIGNS and _FIRST_SYMBOL <= char <= _LAST_SYMBOL
    return _SIGNS[font].get(ord(char) & 0xFF, "").strip() if is_known else char


def _text(element: Any, context: Context) -> str:
    text = element.text or ""
    if not text or max(text) < _FIRST_SYMBOL:
        return text
    fonts = (attribute(each, "ascii") for each in _properties(element.getparent()) if local(each) == "rFonts")
    font = next(fonts, "")
    return "".join(symbol(char, font) for char in text)


def _sign(element: Any, context: Context) -> str:
    code = attribute(element, "char")
    return symbol(chr(int(code, 16)), attribute(element, "font")) if _CODE.fullmatch(code) else ""


def picture(properties: Any, *_: object) -> str:
    """What is said of a picture or a shape."""
    said = pictured(attribute(properties, "descr"))
    return f" {said} " if said else ""


_LINK = re.compile(r"""HYPERLINK\s+["“]([^"”]{1,500})["”]""")


def _instruction(element: Any, context: Context) -> str:
    if context.fields:
        context.fields[-1] += element.text or ""
    return ""


def _field(mark: Any, context: Context) -> str:
    """What is chosen or ticked in a field of a form, where it begins, and the address of a link, where it ends."""
    kind = attribute(mark, "fldCharType")
    if context.fields is not None and kind == "begin":
        context.fields.append("")
        return _chosen(mark)
    link = _LINK.search(context.fields.pop()) if context.fields and kind == "end" else None
    shown = mark.getparent().getprevious()
    return behind_link(link[1], mark if shown is None else shown) if link else ""


def _chosen(field: Any) -> str:
    for box in named(field, "checkBox"):
        states = {local(each): attribute(each, "val") for each in box}
        return "[ ]" if states.get("checked", states.get("default", "0")) in ("0", "false") else "[x]"
    entries = [attribute(each, "val") for each in named(field, "listEntry")]
    place = next((number_in(each, "val", 0) for each in named(field, "result")), 0)
    return entries[place] if place < len(entries) else ""


def _drawn(element: Any, context: Context) -> str:
    return "\n" + context.drawings.get(attribute(element, "id") or attribute(element, "dm"), "")


def _address(element: Any, name: str, context: Context) -> str:
    """The address of a link of Word, or of a run of PowerPoint."""
    if name == "fldSimple":
        code = _LINK.search(attribute(element, "instr"))
        return code[1] if code else ""
    if not context.links or name not in ("r", "hyperlink"):
        return ""
    link = element if name == "hyperlink" else next(named(element, "hlinkClick"), None)
    return "" if link is None else context.links.get(attribute(link, "id"), "")


def behind_link(address: str, element: Any) -> str:
    """What stands behind a link: its address in brackets, unless its text has it or it leads to no other place."""
    address = address.removeprefix("mailto:")
    leads_nowhere = not address or len(address) > _LONGEST_ADDRESS or (":" not in address and "@" not in address)
    if leads_nowhere:
        return ""
    said = "".join(text[:_LONGEST_ADDRESS] for text in islice(element.itertext(), _TRIED))
    return "" if address.rstrip("/") in said else f" ({address})"


def run_sign(run: Any, context: Context = _NONE) -> str:
    """^ for a raised run of Word, PowerPoint or Excel, _ for a lowered one, HIDDEN for an unseen one, else ""."""
    first = next(iter(run), run)
    shift = first.get("baseline", "0").removesuffix("%") if local(first) == "rPr" else ""
    if shift.lstrip("-").strip("0.").isdecimal():
        return "_" if shift.startswith("-") else "^"
    said = {local(each): attribute(each, "val") for each in _properties(run)}
    if said.get("vanish", "0") not in ("0", "false"):
        return HIDDEN
    return sign_of(said.get("vertAlign", "")) or context.signs.get(said.get("rStyle", ""), "")


def _properties(run: Any) -> Iterable[Any]:
    """The properties of a run: the first ones, for each of its texts may ask for them."""
    first = next(iter(run), run)  # len(run) would count all
    return islice(first, _TRIED) if local(first) == "rPr" else ()


def sign_of(said: str) -> str:
    """The sign of `superscript` and `subscript`."""
    return {"superscript": "^", "subscript": "_"}.get(said, "")


def _term(element: Any, *_: object) -> str:
    """An equation, or a part of one, in one line."""
    said = ""
    for each in element:
        name = local(each)
        if name == "t":
            said += each.text or ""
        elif name not in _SKIPPED and not name.endswith("Pr"):
            said += _TERMS[name](each) if name in _TERMS else _term(each)
    return said


def _parts(element: Any, name: str) -> list[str]:
    return [_term(each).strip() for each in element if local(each) == name]


def _part(element: Any, name: str) -> str:
    return next(iter(_parts(element, name)), "")


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


def _sum(element: Any) -> str:
    low, high = (_part(element, name) for name in ("sub", "sup"))
    sign = setting(element, "chr") or "∫"
    limits = (f"_{grouped(low)}" if low else "") + (f"^{grouped(high)}" if high else "")
    return f"{sign}{limits} {_part(element, 'e')}"


def _bracketed(element: Any) -> str:
    said = {local(each): attribute(each, "val") for each in element.iterfind("{*}dPr/*")}
    inner = said.get("sepChr", "|").join(_parts(element, "e"))
    return f"{said.get('begChr', '(')}{inner}{said.get('endChr', ')')}"


_TERMS: dict[str, Callable[[Any], str]] = {
    "f": _fraction, "nary": _sum, "d": _bracketed,
    "m": lambda matrix: f"[{'; '.join(', '.join(_parts(row, 'e')) for row in matrix.iterfind('{*}mr'))}]",
    "rad": lambda root: root_of(_part(root, "e"), _part(root, "deg")),
    "func": lambda function: f"{_part(function, 'fName')} {grouped(_part(function, 'e'))}",
    "eqArr": lambda equations: "; ".join(_parts(equations, "e")),
    **dict.fromkeys(("sSup", "sSub", "sSubSup", "sPre", "limLow", "limUpp"), _indexed),
}  # fmt: skip
_SAID: dict[str, Callable[[Any, Context], str]] = {  # what says something by itself, and how
    "t": _text, "sym": _sign, "oMath": _term, "docPr": picture, "instrText": _instruction, "fldChar": _field,
    "chart": _drawn, "relIds": _drawn, "noBreakHyphen": lambda *_: "-",
    **dict.fromkeys(("tab", "ptab"), lambda *_: "\t"),
    **dict.fromkeys(("br", "cr"), lambda *_: "\n"),
}  # fmt: skip
