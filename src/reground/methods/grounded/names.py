"""A reply that can only be some of the names in the passages: what cannot be invented need not be checked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from reground.core.language import Grammar


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
