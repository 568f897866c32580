"""The claims of an answer as they stand in it: what each stands under, what its pronoun may mean, and what it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from reground.core.evidence import Passage
from reground.support.lexical import Claim, claims
from reground.support.units import columns
from reground.text.excerpts import FUNCTION_WORDS
from reground.text.sentences import names_in

_PRONOUN = re.compile(
    r"\A(?:(?:he|she|it|they|his|her|its|their|this|these|er|sie|es|il|elle|ils|elles|él|ella)\b|[他她它彼]|それ|これ)",
    re.IGNORECASE,
)
_TO_THE_READER = re.compile(r"\A(?:I hope|hope this|let me know|feel free|happy to help)\b", re.IGNORECASE)
_WRAPPED = re.compile(r"^([^\n#|`~>][^\n]{49,}+)\n(?=[ \t]*+(?![-*+•–#>|`~=]|\d{1,3}[.)]\s|\[)\S)", re.MULTILINE)
_QUOTED = re.compile(r"^(>[^\n]{49,}+)\n>(?=[ \t]*+\w)", re.MULTILINE)
"""A full line whose sentence may go on in the next one, in a paragraph and in a quotation."""
_ITEM = re.compile(r"\A\s*+(?:[-*+•–]|\d{1,3}[.)])\s")
_REFERENCE = re.compile(
    r"\]\((?P<link>[^()\s]{1,300})\)|(?P<url>https?://[^\s()<>\]]{1,300})|\[\^?(?P<marker>\w{1,9}(?:, ?\d{1,4}){0,9})\]"
    r"|(?<![\w./-])(?P<file>[\w./-]{1,200}\.[A-Za-z]\w{0,4})(?![\w/-])"
)
_BRACKETS = re.compile(r" ?(?<!\])\((?:[^()]|\([^()]{0,300}+\)){1,300}+\)")
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{1,300}\)")
_SOURCE = re.compile(r"\A[ \t]*+(?:[-*][ \t]++)?(?:\[\^?(\w{1,9})\]:?|(\d{1,3})[.)])[ \t]++(\S.*)")
_MOST, _LONGEST = 4, 200
"""The names that a pronoun may mean, which is also the words of a numbered source beside its link, and the characters
of what stands before a claim that are searched with it."""


def stated(answer: str, question: str) -> list[Claim]:
    """The claims of an answer as `claims` gives them, with what they stand under, lean on and cite.

    Rows of a table are read with its head. The sources that an answer lists, code, and what is only said to the reader
    ("I hope this helps") claim nothing.
    """
    parts = claims(_QUOTED.sub(r"\1  ", _WRAPPED.sub(r"\1 ", answer)), question)
    ends = accumulate(len(part.text) for part in parts)
    found: list[Claim] = []
    before, last, heading, over, head, in_code = _names(question)[:_MOST], "", "", "", "", False
    for part, end in zip(parts, ends, strict=True):
        text, bare, statement, key = answer[end - len(part.text) : end], part.text.strip(), part.statement, ""
        cites = tuple(_references(text))
        in_code ^= bare.startswith(("```", "~~~"))
        if in_code or _source(bare) or _TO_THE_READER.match(statement):
            cites, statement = (), ""
        elif bare.startswith("|"):
            head = head or bare
            cells = columns(bare)
            row = "; ".join(": ".join(filter(None, cell)) for cell in zip(columns(head), cells, strict=False))
            statement, key = (row, cells[0]) if statement else ("", "")
        elif bare.startswith("#"):
            heading, over = bare.strip("# "), ""
        elif bare.endswith((":", "：")):
            over = bare
        else:
            head, over = "", over if _ITEM.match(part.text) else ""
        statement = _without_references(statement)
        leans = _PRONOUN.match(statement) is not None
        about = tuple(before) if leans else ()
        context = " ".join(filter(None, [heading, over[-_LONGEST:], *(about or [last[:_LONGEST]] * leans)])) or question
        alone = part.alone and not leans and bool(question)
        found.append(Claim(text, statement, part.question, alone, about, key, context, cites))
        if statement:
            before, last = [*_names(statement), *about][:_MOST], statement
        elif cites and len(found) > 1 and not any(map(str.isalnum, _REFERENCE.sub("", bare))):  # behind the full stop
            found[-2] = replace(found[-2], cites=(*found[-2].cites, *cites))
    return found


def _names(text: str) -> list[str]:
    """The names that a pronoun behind a text may mean: not those before a noun, as in "an American actor"."""
    names = [name for name in names_in([text]) if name.casefold() not in FUNCTION_WORDS]
    behind = (re.search(rf"{re.escape(name)}['’s]*(\W*)(\w*)", text) for name in names[1:])
    nouns = [at is None or at[1] != " " or at[2].casefold() in FUNCTION_WORDS for at in behind]
    return [*names[:1], *(name for name, is_noun in zip(names[1:], nouns, strict=True) if is_noun)]


def listed(answer: str) -> dict[str, tuple[str, ...]]:
    """What an answer lists as its sources, by marker: links, addresses, names of files, and the line itself."""
    return dict(filter(None, map(_source, answer.split("\n"))))


def _source(line: str) -> tuple[str, tuple[str, ...]] | None:
    """The marker of a source and what names it; None for a line that is none."""
    match = _SOURCE.match(line)
    if match is None:
        return None
    references = list(_references(match[3]))
    beside = len(_REFERENCE.sub(" ", match[3]).split())
    is_source = (references and (match[1] or beside < _MOST)) or (match[1] and not match[3].rstrip().endswith("."))
    return (match[1] or match[2], (*references, match[3].strip())) if is_source else None


def _references(text: str) -> Iterator[str]:
    for match in _REFERENCE.finditer(text):
        if match["marker"]:
            note = "^" if match[0].startswith("[^") else ""
            yield from (f"[{note}{each.strip()}]" for each in match["marker"].split(","))
        else:
            yield (match["link"] or match["url"] or match["file"]).rstrip(".,;:")


def _without_references(statement: str) -> str:
    """A statement without brackets that hold a reference, without addresses, and with the texts of links."""
    plain = _BRACKETS.sub(lambda each: "" if _REFERENCE.search(each[0]) else each[0], statement)
    return re.sub(r"https?://\S++", "", _LINK.sub(r"\1", plain)).strip() or statement


def names_page(name: str, passage: Passage) -> bool:
    """Whether a link, the name of a file or a title names the document of a passage."""
    wanted = _known_as(name)
    own = {_known_as(each) for each in (passage.page_id, passage.url or "", passage.title)} - {""}
    return any(each == wanted or each.endswith(f"/{wanted}") or wanted.endswith(f"/{each}") for each in own if wanted)


def _known_as(name: str) -> str:
    return re.sub(r"[#?].*\Z|:\d+\Z", "", name.casefold().strip("<>*_`\"' .")).removeprefix("./")
