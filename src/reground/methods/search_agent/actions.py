"""The Search Agent's actions: as Python code in prompts (listings 1 to 6), as a grammar, and the links in their texts.

The grammar is not in the paper, whose smaller models learn the form by fine-tuning (section 3.1).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from pydantic import JsonValue

from reground.core.citations import unbracketed
from reground.core.language import Grammar
from reground.core.untrusted import clip

END = "# [END]"


@dataclass(frozen=True)
class Search:
    """Look something up."""

    query: str
    thoughts: str = ""


@dataclass(frozen=True)
class Terminate:
    """End the search loop."""

    thoughts: str = ""


@dataclass(frozen=True)
class LinkSelection:
    """The useful links of one search, and their summary."""

    grounded_summarization: str
    selected_link_ids: tuple[int, ...]
    thoughts: str = ""


@dataclass(frozen=True)
class GivenAnswer:
    """The answer to the question; `Answer` in the prompts."""

    answer: str
    thoughts: str = ""


@dataclass(frozen=True)
class CheckAnswer:
    """The verdict of a self-check; `Check_Answer` in the prompts."""

    passed: bool


@dataclass(frozen=True)
class ReviseAnswer:
    """A better answer after a failed self-check; `Revise_Answer` in the prompts."""

    revised_answer: str
    thoughts: str = ""


Action: TypeAlias = Search | Terminate | LinkSelection | GivenAnswer | CheckAnswer | ReviseAnswer

NAMES: Mapping[type[Action], str] = {
    Search: "Search",
    Terminate: "Terminate",
    LinkSelection: "LinkSelection",
    GivenAnswer: "Answer",
    CheckAnswer: "Check_Answer",
    ReviseAnswer: "Revise_Answer",
}
"""What each action is called in the prompts."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "Search": ("query", "thoughts"),
    "Terminate": ("thoughts",),
    "LinkSelection": ("grounded_summarization", "thoughts", "selected_link_ids"),
    "Answer": ("thoughts", "answer"),
    "Check_Answer": ("passed",),
    "Revise_Answer": ("revised_answer", "thoughts"),
}
"""The fields of each action, in the order of its positional arguments."""


@dataclass(frozen=True)
class ResultItem:
    """A search result as the prompt shows it."""

    link_id: int
    link_text: str
    snippet: str


@dataclass(frozen=True)
class SelectLink:
    """A LinkSelection among the past actions, with the links themselves."""

    selected_links: tuple[ResultItem, ...]
    grounded_summarization: str
    thoughts: str = ""


Past: TypeAlias = Search | SelectLink | Terminate | GivenAnswer


def as_data(action: Action) -> dict[str, JsonValue]:
    """The action as JSON, for trajectories."""
    fields: dict[str, JsonValue] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(action).items()
    }
    return {"action": type(action).__name__, **fields}


def from_data(data: Mapping[str, JsonValue]) -> Action:
    """The action that `as_data` wrote. Raises KeyError or TypeError for other data."""
    kinds: dict[str, type[Action]] = {kind.__name__: kind for kind in NAMES}
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name != "action"
    }
    return kinds[str(data["action"])](**fields)


def literal(text: str) -> str:
    """A Python string literal, always in double quotes, with line breaks and quotes escaped.

    Models copy the quotes they see, and double quotes allow apostrophes in the text.
    """
    # repr uses double quotes for a text with an apostrophe and no double quote, and escapes neither.
    return '"' + '\\"'.join(repr("'" + part)[2:-1] for part in text.split('"')) + '"'


_CALLS: Mapping[type[Action], str] = {
    Search: "ActionWrapper(thoughts={thoughts}, action=Search(query={query}))",
    Terminate: "ActionWrapper(thoughts={thoughts}, action=Terminate())",
    LinkSelection: (
        "LinkSelection(grounded_summarization={grounded_summarization}, thoughts={thoughts}, "
        "selected_link_ids={selected_link_ids})"
    ),
    GivenAnswer: "Answer(thoughts={thoughts}, answer={answer})",
    CheckAnswer: "Check_Answer(passed={passed})",
    ReviseAnswer: "Revise_Answer(revised_answer={revised_answer})",
}
"""How each action is written in a reply, with a place for each field."""


def reply(action: Action, comments: Sequence[str] = ()) -> str:
    """An assistant's turn, as in the exemplars."""
    values = {
        field: literal(value) if isinstance(value, str) else list(value) if isinstance(value, tuple) else value
        for field, value in asdict(action).items()
    }
    call = _CALLS[type(action)].format(**values)
    return "\n".join([*(f"# {comment}" for comment in comments), f"ACTION_SELECTED = {call}  {END}"])


def past_code(past: Past, *, snippet_tokens: int) -> str:
    """A past action as an entry of PAST_ACTIONS, its snippets cut to `snippet_tokens` tokens."""
    match past:
        case Search(query, thoughts):
            return f"Search(query={literal(query)},\nthoughts={literal(thoughts)},\n),"
        case Terminate(thoughts):
            return f"Terminate(thoughts={literal(thoughts)}),"
        case GivenAnswer(answer, thoughts):
            return f"Answer(thoughts={literal(thoughts)}, answer={literal(answer)}),"
        case SelectLink(links, summary, thoughts):
            shown = results_code(links, snippet_tokens=snippet_tokens)
            head = f"SelectLink(selected_links=[\n{shown}\n]," if links else "SelectLink(selected_links=[],"
            return f"{head}\ngrounded_summarization={literal(summary)},\nthoughts={literal(thoughts)},\n),"


def results_code(links: Sequence[ResultItem], *, snippet_tokens: int) -> str:
    """Search results, one entry each, cut to `snippet_tokens` tokens."""
    results = []
    for link in (cut_item(each, snippet_tokens) for each in links):
        text, snippet = literal(link.link_text), literal(unbracketed(link.snippet))
        results.append(f"  ResultItem(link_id={link.link_id}, link_text={text},\n    snippet={snippet}),")
    return "\n".join(results)


def cut_item(link: ResultItem, tokens: int) -> ResultItem:
    """The result with normalised white space, cut to length."""
    title, snippet = (" ".join(text.split()) for text in (link.link_text, link.snippet))
    return replace(link, link_text=clip(title, 24), snippet=clip(snippet, tokens))


_CODE = re.compile(r"(```.*?(?:```|\Z)|``[^`\n]+``|`[^`\n]*`)", re.DOTALL)
_NUMBER = r"(?:\"\d+\"|'\d+'|\{\d+\}|#?\d+)"
_ID = rf"(?:link_?ids?\s*(?:[=:]\s*)?|link ids?\s*[=:]\s*){_NUMBER}"
_ONE = rf"(?:{_ID}|#?\d+)"
_NEXT = rf"(?:\s*(?:,|;|&|and|to|-|–)\s*(?:and\s+)?{_ONE})*"
_LISTED = rf"\[\s*{_ONE}{_NEXT}\s*\]"
_BLANKS = r"(?<![ \t])[ \t]*"
"""Blanks before a mention are removed with it. The look-behind avoids a match attempt at each blank of a long run."""

_IN_PROSE = re.compile(
    rf"{_BLANKS}(?:{_LISTED}|\(\s*{_ID}{_NEXT}\s*\)|\blink_?ids\s+{_NUMBER}{_NEXT}|\b{_ID})", re.IGNORECASE
)
_IN_CODE = re.compile(rf"{_BLANKS}\[\s*{_ID}{_NEXT}\s*\]", re.IGNORECASE)
_PLAIN = re.compile(r"\[\s*\d{1,3}(?:\s*[,;]\s*\d{1,3})*\s*\]")
_LINK = re.compile(r"\[link_id=(\d{1,9})\]")

_PASSES = 4
"""Maximum passes over a text. A text that still changes after that is only nested brackets."""


def existing(text: str, known: Collection[int], *, plain: bool = True) -> tuple[str, list[int]]:
    """The text with known links as [link_id=N] and without unknown ones; and the removed ids.

    A link is anything labelled as one, in any spelling, and, if `plain` is set, up to three digits in square brackets.
    Code keeps such digits, because they are indices there, and also names that contain link_id.
    """
    unknown: list[int] = []

    def keep(found: re.Match[str]) -> str:
        whole = found.group()
        mention = whole.lstrip()
        if "link" not in mention.lower() and not (plain and _PLAIN.fullmatch(mention)):
            return whole
        numbers = [int(number[:9]) for number in re.findall(r"\d+", mention)]
        unknown.extend(number for number in numbers if number not in known)
        kept = "".join(f"[link_id={number}]" for number in numbers if number in known)
        return whole[: len(whole) - len(mention)] + kept if kept else ""

    for _ in range(_PASSES):  # a removal may create another mention: [link_id=[9]9]
        before, text = text, _pass(text, keep)
        if text == before:
            break
    else:
        text = re.sub(r"[\[\]]", "", text)
    return text.strip(), list(dict.fromkeys(unknown))


def _pass(text: str, keep: Callable[[re.Match[str]], str]) -> str:
    parts = _CODE.split(text)
    parts[::2] = [_IN_PROSE.sub(keep, part) for part in parts[::2]]
    codes = [(part, _IN_CODE.sub(keep, part)) for part in parts[1::2]]
    parts[1::2] = ["" if code != part and code == "``" else code for part, code in codes]  # it held nothing else
    return "".join(parts)


def linked(text: str) -> list[int]:
    """The link ids in a text that `existing` has passed, each once."""
    return list(dict.fromkeys(int(number) for number in _LINK.findall(text)))


def as_markers(text: str) -> str:
    """The text with [3] instead of [link_id=3], like the citations of other methods."""
    return _LINK.sub(r"[\1]", text)


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
    said = '" said "'
    calls = (
        _CALLS[kind].format_map(defaultdict(lambda: said, passed="True", selected_link_ids='[" links "]'))
        for kind in kinds
    )
    rules = [
        f'root ::= {before}"ACTION_SELECTED = " action "  {END}"',
        "action ::= " + " | ".join(f'"{call}"' for call in calls),
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
