"""Names that passages hold, and a reply that can only be some of them: what cannot be invented need not be checked.

A name is a run of words with capital letters, so scripts without them have none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from reground.core.evidence import Passage
from reground.core.language import Grammar
from reground.text.sentences import sentences

_WORD = r"[^\W\d_a-z][\w'’.&-]*"
_LINK = r"(?:of|the|de|del|della|la|le|du|des|van|von|der|den|di|da|al|el|bin)"
_NAME = re.compile(rf"{_WORD}(?:(?:\s{_LINK}){{0,2}}\s(?:{_WORD}|\d+))*")
_OWNER = re.compile(r"['’]s\b")
_LOWER = re.compile(r"\b[a-z][\w'’-]*")
_MOST = 64
"""Names that are offered; a grammar of more is slow to decode by."""
_LONGEST = 8
"""Words of a name; more are a heading or a list."""


def names_in(passages: Iterable[Passage], *, without: Iterable[str] = ()) -> list[str]:
    """The names in passages, in the order in which they stand, each once.

    A first word that the passages also write in small letters, such as "The" or "During", is no part of a name.
    without: names that are not wanted, such as titles that were read.
    """
    texts = [passage.text for passage in passages]
    common = {word for text in texts for word in _LOWER.findall(text)}
    left_out = {" ".join(each.split()).casefold() for each in without}
    found: dict[str, str] = {}
    for sentence in (each for text in texts for each in sentences(text)):
        for match in _NAME.finditer(sentence):
            words = _OWNER.sub("", match.group().rstrip(".'’&-")).split()
            while words and (words[0].casefold() in common or not words[0][0].isupper()):
                del words[0]
            name = " ".join(words)
            if len(name) > 2 and len(words) <= _LONGEST and name.casefold() not in left_out:
                found.setdefault(name.casefold(), name)
    return list(found.values())[:_MOST]


def some_of(names: Sequence[str], *, most: int) -> Grammar:
    """A reply of one to `most` of the names, separated by semicolons."""
    one = " | ".join(json.dumps(name, ensure_ascii=False) for name in names)
    gbnf = f'root ::= name ("; " name){{0,{most - 1}}}\nname ::= {one}\n'
    items = {"type": "string", "enum": list(names)}
    schema = {
        "type": "object",
        "properties": {"names": {"type": "array", "items": items}},
        "required": ["names"],
        "additionalProperties": False,
    }
    return Grammar(gbnf=gbnf, json_schema=json.dumps(schema, ensure_ascii=False))


def read_names(reply: str, names: Sequence[str]) -> list[str]:
    """The names that a reply states, as text or as JSON, in its order; those that were not offered are left out."""
    try:
        said = json.loads(reply)["names"]
        parts = [str(each) for each in said] if isinstance(said, list) else []
    except (ValueError, KeyError, TypeError):
        parts = re.split(r"[;\n]", reply)
    known = {name.casefold(): name for name in names}
    keys = (" ".join(part.split()).strip("\"'“”*.- ").casefold() for part in parts)
    return list(dict.fromkeys(known[key] for key in keys if key in known))
