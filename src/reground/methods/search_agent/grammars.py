"""The form of each step's reply, for models that write malformed code: comments, and one action with all its fields.

Not in the paper, whose smaller models learn the form by fine-tuning (section 3.1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from reground.core.language import Grammar
from reground.methods.search_agent.actions import (
    END,
    FIELDS,
    NAMES,
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    ReviseAnswer,
    Search,
    Terminate,
)

_CALLS: Mapping[type[Action], str] = {
    Search: '"ActionWrapper(thoughts=" said ", action=Search(query=" said "))"',
    Terminate: '"ActionWrapper(thoughts=" said ", action=Terminate())"',
    LinkSelection: '"LinkSelection(grounded_summarization=" said ", thoughts=" said ", selected_link_ids=[" links "])"',
    GivenAnswer: '"Answer(thoughts=" said ", answer=" said ")"',
    CheckAnswer: '"Check_Answer(passed=True)"',
    ReviseAnswer: '"Revise_Answer(revised_answer=" said ")"',
}
_WORDS = r"""said ::= "\"" opening? [0-9A-Za-z\u00C0-\U0010FFFF] char* "\""
opening ::= [(\['] | "\\\""
char ::= [^"\\#\x00-\x1F\x7F] | "\\" ["'\\n] | "#" [^ "\\#\x00-\x1F\x7F]
comment ::= "# " [^\n]+ "\n"
"""
"""A text begins with a word, perhaps in quotes or brackets, and never holds the end mark."""
_COMMENTS = 4
_STRING = {"type": "string"}


@cache
def grammar(kinds: tuple[type[Action], ...], *, comments: bool = False, links: tuple[int, ...] = ()) -> Grammar:
    """The form of a reply with one action of these kinds. links: the link ids that a selection may name."""
    return Grammar(gbnf=_gbnf(kinds, comments, links), json_schema=json.dumps(_schema(kinds, links)))


def _gbnf(kinds: Sequence[type[Action]], comments: bool, links: Sequence[int]) -> str:
    before = f"comment{{0,{_COMMENTS}}} " if comments else ""
    more = f' (", " link){{0,{len(links) - 1}}}' if len(links) > 1 else ""
    named = [f"links ::= (link{more})?", "link ::= " + " | ".join(f'"{i}"' for i in links)] if links else []
    rules = [
        f'root ::= {before}"ACTION_SELECTED = " action "  {END}"',
        "action ::= " + " | ".join(_CALLS[kind] for kind in kinds),
        *(named or ['links ::= ""']),
    ]
    return "\n".join(rules) + "\n" + _WORDS


def _schema(kinds: Sequence[type[Action]], links: Sequence[int]) -> dict[str, Any]:
    """All fields are required, as strict servers demand; those of another action are ignored."""
    types: dict[str, Any] = {
        "action": {"type": "string", "enum": [NAMES[kind] for kind in kinds]},
        "passed": {"type": "boolean"},
        "selected_link_ids": {"type": "array", "items": {"type": "integer", "enum": list(links)}},
    }
    fields = dict.fromkeys(["thoughts", "action", *(field for kind in kinds for field in FIELDS[NAMES[kind]])])
    properties = {field: types.get(field, _STRING) for field in fields}
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}
