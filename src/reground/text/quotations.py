"""Sentences that a reply quotes before it answers, and whether a text has them letter by letter.

White space, quotation marks and markup do not count. An ellipsis, and the end of one quotation before the beginning of
the next, leave something out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from reground.core.evidence import unbracketed, without_unknown
from reground.text.languages import UNSPACED_LETTER
from reground.text.sentences import sentences

_OPENS, _CLOSES = "\"'`“”„‟‘’‚«»‹›「『〝＂", "\"'`”“‟’‘«»‹›」』〞＂"
_ENDS = dict(zip(_OPENS, "\"'`””“”’’‘»«›‹」』〞＂", strict=True))
_LEAD = re.compile(
    rf"\A\s*+(?:(?:[-*+•>]|\d{{1,2}}[.)])\s++|[^{_OPENS}\n\[]{{0,30}}\[\d[^{_OPENS}\n]{{0,9}}(?=[{_OPENS}]))"
)
"""What stands before a quotation in its line: "- ", "From passage [1]: "."""
_EDGE, _MARKS = " \t\n*().,;:。", f" \t\n{_OPENS}{_CLOSES}"
MOST, _LINES = 20, 20
"""Sentences that a reply may quote, and lines of one quotation."""
_LEAST, LEAST_BARE = 8, 24
"""Letters of the shortest quotation, with its marks and without: a title, or the answer, is none."""
_ELLIPSIS = re.compile(r"[\[(]?(?:\.{3,}+|…++)[\])]?|[\"”»」』＂],?\s++[\"“„«「『＂]")
_ASIDE = re.compile(
    r"(?m)^[ \t]*+[#>•*+-]++[ \t]++"  # of a heading, a quotation or an item
    r"|\]\([^()\s]{1,300}\)|\[(?=[^\[\]\n]{1,200}\]\()"  # of a link
    r"|:[\w-]{1,20}:(?=`)"  # of a role
    r"|[*_~`|]++(?![^\W_])|(?<![^\W_])[*_~`|]++"  # inside of a word they are its own
    rf"|[\s{_OPENS}{_CLOSES}´‛\u00ad\u200b\ufeff]++"
)
_SAME = str.maketrans(dict.fromkeys("‐‑‒–—―−", "-"))
_POINTS = ".,;:!?。，、；：！？-"
_GOES_ON = re.compile(
    rf"(?<=[^\W_])(?<!{UNSPACED_LETTER})(?=[^\W_])(?!{UNSPACED_LETTER})|(?<=\d)(?=[.,]\d)|(?<=\d[.,])(?=\d)"
)
"""The inside of a word or a number."""
_TRIES = 20  # places of a part; nearly all stand once in a text


def quotations(text: str) -> tuple[list[str], str]:
    """The sentences of the lines in quotation marks, or behind `>`, that a text begins with, and the rest of it."""
    quotes, lines, end = list[str](), text.splitlines(keepends=True), 0
    while end < len(lines) and len(quotes) < MOST:
        begin, quote = end, _content(lines[end])
        while quote[:1] in _ENDS and _ENDS[quote[0]] not in quote[1:] and end + 1 < min(len(lines), begin + _LINES):
            end += 1
            quote = _content("".join(lines[begin : end + 1]))
        is_quoted = lines[begin].lstrip().startswith(">") or (quote[:1] in _ENDS and quote[-1:] in _CLOSES)
        if quote and not (is_quoted and is_long(quote)):
            return quotes, "".join(lines[begin:])
        quotes += [each.strip(_MARKS) for each in sentences(" ".join(quote.split())) if any(map(str.isalnum, each))]
        end += 1
    return quotes, "".join(lines[end:])


def _content(text: str) -> str:
    """The content of some lines, without the numbers of passages and the marks around a quotation."""
    return without_unknown(_LEAD.sub("", text), ())[0].strip(_EDGE)


def is_long(text: str, least: int = _LEAST) -> bool:
    """Whether a text has that many letters. One of a script without spaces counts twice."""
    return sum(map(str.isalnum, text)) + len(re.findall(UNSPACED_LETTER, text)) >= least


def copied(quotation: str, text: str) -> list[str]:
    """The pieces of a text that a quotation is a copy of, one where it leaves nothing out; none if any is not there."""
    text = unicodedata.normalize("NFC", text)
    letters, places = _letters(unbracketed(text))  # as prompts show it
    pieces, at = list[str](), 0
    for part in _ELLIPSIS.split(unbracketed(unicodedata.normalize("NFC", quotation))):
        key = _letters(part)[0].strip(_POINTS)
        if key:
            start = _position(key, letters, places, text, at)
            if start < 0:
                return []
            at = start + len(key)
            pieces.append(text[places[start] : places[at - 1] + 1])
    return pieces


def _letters(text: str) -> tuple[str, list[int]]:
    """The characters of a text that count, and where each stands."""
    places, end = list[int](), 0
    for aside in _ASIDE.finditer(text):
        places += range(end, aside.start())
        end = aside.end()
    places += range(end, len(text))
    return "".join(text[place] for place in places).translate(_SAME), places


def _position(key: str, letters: str, places: Sequence[int], text: str, at: int) -> int:
    """Where whole words are, from a place on or else before it; -1 where they are not. Their first letter may be large
    or small."""
    for start in (at, 0):
        for form in (key, key[0].swapcase() + key[1:]):
            place = start - 1
            for _ in range(_TRIES):
                place = letters.find(form, place + 1)
                if place < 0:
                    break
                first, last = places[place], places[place + len(key) - 1]
                if not (_GOES_ON.match(text, first) or _GOES_ON.match(text, last + 1)):
                    return place
    return -1
