"""The Search Agent's actions: as Python code in prompts (listings 1 to 6), as a grammar, and as replies are read.

The grammar is not in the paper, whose smaller models learn the form by fine-tuning (section 3.1). A reply is parsed
with `ast`, never run. Small models write almost Python, as 'Schindler's List' in single quotes. The meaning is still
clear, because the fields have known names: `mended` quotes their values again.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeAlias

from pydantic import JsonValue

from reground.core.code_blocks import parsed
from reground.core.errors import ParseError
from reground.core.evidence import unbracketed
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
    kinds: dict[str, Callable[..., Action]] = {kind.__name__: kind for kind in NAMES}
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
    values = {field: literal(value) if isinstance(value, str) else value for field, value in as_data(action).items()}
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
            results = results_code(links, snippet_tokens=snippet_tokens)
            head = f"SelectLink(selected_links=[\n{results}\n]," if links else "SelectLink(selected_links=[],"
            return f"{head}\ngrounded_summarization={literal(summary)},\nthoughts={literal(thoughts)},\n),"


def results_code(links: Sequence[ResultItem], *, snippet_tokens: int) -> str:
    """Search results, one entry each, cut to `snippet_tokens` tokens."""
    results = []
    for link in links:
        title, snippet = (" ".join(text.split()) for text in (link.link_text, link.snippet))
        text, snippet = literal(clip(title, 24)), literal(unbracketed(clip(snippet, snippet_tokens)))
        results.append(f"  ResultItem(link_id={link.link_id}, link_text={text},\n    snippet={snippet}),")
    return "\n".join(results)


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


def existing(text: str, ids: Collection[int], *, plain: bool = True) -> tuple[str, list[int]]:
    """The text with its links to these ids as [link_id=N] and without other links; and the removed ids.

    A link is anything labelled as one, in any spelling, and, if `plain` is set, up to three digits in square brackets.
    Code keeps such digits, because they are indices there, and also names that contain link_id.
    """
    unknown: list[int] = []

    def keep(match: re.Match[str]) -> str:
        whole = match.group()
        mention = whole.lstrip()
        if "link" not in mention.lower() and not (plain and _PLAIN.fullmatch(mention)):
            return whole
        numbers = [int(number[:9]) for number in re.findall(r"\d+", mention)]
        unknown.extend(number for number in numbers if number not in ids)
        links = "".join(f"[link_id={number}]" for number in numbers if number in ids)
        return whole[: len(whole) - len(mention)] + links if links else ""

    for _ in range(_PASSES):  # a removal may create another mention: [link_id=[9]9]
        parts = _CODE.split(text)
        parts[::2] = [_IN_PROSE.sub(keep, part) for part in parts[::2]]
        codes = [(part, _IN_CODE.sub(keep, part)) for part in parts[1::2]]
        parts[1::2] = ["" if code != part and code == "``" else code for part, code in codes]  # it held nothing else
        before, text = text, "".join(parts)
        if text == before:
            break
    else:
        text = re.sub(r"[\[\]]", "", text)
    return text.strip(), list(dict.fromkeys(unknown))


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
    before = f"comment{{0,{_COMMENTS}}} " if comments else ""
    places = defaultdict(lambda: '" said "', passed="True", selected_link_ids='[" links "]')
    calls = " | ".join(f'"{_CALLS[kind].format_map(places)}"' for kind in kinds)
    rules = [f'root ::= {before}"ACTION_SELECTED = " action "  {END}"', f"action ::= {calls}"]
    more = f' (", " link){{0,{len(links) - 1}}}' if len(links) > 1 else ""
    rules += (
        [f"links ::= (link{more})?", "link ::= " + " | ".join(f'"{i}"' for i in links)] if links else ['links ::= ""']
    )
    # all fields are required, as strict servers demand; those of another action are ignored
    fields = dict.fromkeys(["thoughts", "action", *(field for kind in kinds for field in FIELDS[NAMES[kind]])])
    types: dict[str, Any] = {
        "action": {"type": "string", "enum": [NAMES[kind] for kind in kinds]},
        "passed": {"type": "boolean"},
        "selected_link_ids": {"type": "array", "items": {"type": "integer", "enum": list(links)}},
    }
    properties = {field: types.get(field, _STRING) for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}
    return Grammar(gbnf="\n".join(rules) + "\n" + _WORDS, json_schema=json.dumps(schema))


LONGEST = 20_000
"""Maximum characters read of a reply. An action is far shorter, and the limit keeps nesting shallow."""

_STARTS = 8
"""Maximum number of starting lines to try. A model that repeats itself writes hundreds."""

_ACTIONS: Mapping[str, tuple[str, ...]] = {"ActionWrapper": ("thoughts", "action"), **FIELDS}
_START = re.compile(
    rf"^[ \t>`]*(?:[A-Za-z_]\w*\b[^=\n]{{0,60}}=[ \t]*|[A-Za-z_]+:[ \t]*)?((?:\w+\.)?(?:{'|'.join(_ACTIONS)})[ \t]*\()",
    re.MULTILINE,
)
_TOKEN = re.compile(  # an unclosed string takes the rest of its line, so that no text is scanned twice
    r"'''.*?(?:'''|\Z)|\"\"\".*?(?:\"\"\"|\Z)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\\?\Z)"
    r"|\"(?:\\.|[^\"\\\n])*(?:\"|(?=\n)|\\?\Z)|#[^\n]*|[()]",
    re.DOTALL,
)


def read_action(text: str, *, mend: bool = False) -> tuple[Action, bool]:
    """The first action in a reply, and whether its strings had to be quoted again.

    It may be in a Markdown fence, after prose or comments, after `ACTION_SELECTED =` with or without a type, in an
    ActionWrapper or bare; or the whole reply is a JSON object, its "action" the action's name. Raises only ParseError,
    if there is none or it is malformed.

    mend: whether to mend a reply without a valid call. A reply cut by the length limit should not be mended: its last
    quote is not its end.
    """
    whole = text[:LONGEST]
    text = whole.partition(END)[0]
    from_json = _from_json(whole) or _from_json(text)  # a string in JSON may hold the end's mark
    if from_json is not None:
        return from_json, False
    starts = [text[start.start(1) :] for start in islice(_START.finditer(text), _STARTS)]
    call = next(filter(None, map(_call, map(_balanced, starts))), None)
    repaired = mend and call is None
    if repaired:
        call = next(filter(None, (_call(mended(start) or "") for start in starts)), None)
    if call is None:
        raise ParseError("There is no action in it that is valid Python.")
    name, arguments = _name(call), _arguments(call)
    if name == "ActionWrapper":
        inner = arguments.get("action")
        if not isinstance(inner, ast.Call) or _name(inner) not in ("Search", "Terminate"):
            raise ParseError("The ActionWrapper holds neither Search(...) nor Terminate(...).")
        name, arguments = _name(inner), {**arguments, **_arguments(inner)}
    return _action(name, arguments), repaired


def _from_json(text: str) -> Action | None:
    """The action in a JSON object; None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = data.get("action")
    if not isinstance(name, str) or name not in FIELDS:
        return None
    arguments: dict[str, ast.expr] = {}  # the expressions that Python code has in place of the values
    for field, value in data.items():
        is_list = isinstance(value, list)
        arguments[field] = ast.List([ast.Constant(each) for each in value]) if is_list else ast.Constant(value)
    return _action(name, arguments)


def _balanced(text: str) -> str:
    """The text up to the parenthesis that closes its first one, or the whole text."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0 and token.group() == ")":
            return text[: token.end()]
    return text


def _call(source: str) -> ast.Call | None:
    """The call of a known name that a source is; None for any other source."""
    body = getattr(parsed(source), "body", None)
    value = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return value if isinstance(value, ast.Call) and _name(value) in _ACTIONS else None


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """Arguments by name. Positional ones follow the order of the fields; unknown names are ignored."""
    names = _ACTIONS[_name(call)]
    if len(call.args) > len(names) or any(isinstance(value, ast.Starred) for value in call.args):
        raise ParseError(f"{_name(call)} has arguments that cannot be told apart.")
    arguments = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ParseError(f"{_name(call)} has arguments that cannot be told apart.")
        arguments[keyword.arg] = keyword.value
    return arguments


def _action(name: str, arguments: Mapping[str, ast.expr]) -> Action:
    """The action of this name. Raises ParseError for a field of another kind, or an empty one that says something."""
    (kind,) = (kind for kind, own in NAMES.items() if own == name)
    fields: dict[str, Any] = {field: _value(field, arguments.get(field)) for field in FIELDS[name]}
    return kind(**fields)


def _value(field: str, node: ast.expr | None) -> str | bool | tuple[int, ...]:
    """A field's value: a literal, not an f-string or an expression. Lone surrogates are replaced."""
    value = node.value if isinstance(node, ast.Constant) else None
    if field == "selected_link_ids":
        return _link_ids(node)
    if field == "passed":
        if not isinstance(value, bool):
            raise ParseError("passed is neither True nor False.")
        return value
    if field == "thoughts" and node is None:
        return ""
    if not isinstance(value, str):
        raise ParseError(f"{field} is missing or no plain string.")
    text = value.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if field != "thoughts" and not any(map(str.isalnum, text)):
        raise ParseError(f"{field} is empty.")
    return " ".join(text.split()) if field == "query" else text


def _link_ids(listed: ast.expr | None) -> tuple[int, ...]:
    if not isinstance(listed, ast.List | ast.Tuple):
        raise ParseError("selected_link_ids is no list.")
    values = [each.value for each in listed.elts if isinstance(each, ast.Constant)]
    ids = [value for value in values if type(value) is int and 0 < value < 1_000_000]
    if len(ids) != len(listed.elts):
        raise ParseError("selected_link_ids holds something that is no link id.")
    return tuple(dict.fromkeys(ids))


_STRINGS = "query|thoughts|grounded_summarization|answer|revised_answer"
_FIELD = re.compile(
    rf"(?<![\w.])(?:action\s*=\s*(?:\w+\.)?(?P<kind>Search|Terminate)\s*\("
    rf"|(?P<string>{_STRINGS})\s*=\s*(?P<quote>'''|\"\"\"|'|\")"
    r"|(?P<plain>selected_link_ids|passed)\s*=\s*(?P<value>\[[\d,\s]*\]|True\b|False\b))"
)
_NAME = re.compile(r"\A(?:\w++\.)?+(\w++)\s*+\(")
_UNSAFE = re.compile(r"\\.|[\"\n\r\\]", re.DOTALL)
_SAFE = {'"': '\\"', "\n": "\\n", "\r": "\\r", "\\": "\\\\"}


def mended(text: str) -> str | None:
    """The call at the start of the text as valid Python; None if its fields are unclear. Takes linear time.

    A value ends at the last quote before the next field, or before the parenthesis that closes the call.
    """
    name = _NAME.match(text)
    fields = _fields(text)
    if name is None or not fields:
        return None
    kind, values = name[1], {}
    for field, following in zip(fields, [*fields[1:], None], strict=True):
        if field["kind"]:
            kind = field["kind"]
        elif field["plain"]:
            values[field["plain"]] = field["value"]
        else:
            value = text[field.end() : following.start() if following else len(text)]
            content: str | None
            content, closed, rest = value.rpartition(field["quote"])
            if following is None:
                content = _last(value, field["quote"])
            elif not closed or rest.strip(" \t\r\n,)"):
                return None
            if content is None:
                return None
            escaped = _UNSAFE.sub(lambda match: _SAFE.get(match.group(), match.group()), content)
            values[field["string"]] = f'"{escaped}"'
    return f"{kind}({', '.join(f'{field}={value}' for field, value in values.items())})"


def _fields(text: str) -> list[re.Match[str]]:
    """The fields before the first repeated one, where the next action begins."""
    fields: dict[str, re.Match[str]] = {}
    for field in _FIELD.finditer(text):
        name = field["string"] or field["plain"] or "action"
        if name in fields:
            break
        fields[name] = field
    return list(fields.values())


def _last(value: str, quote: str) -> str | None:
    """The value of the last field: up to the first quote and parenthesis that end a line, else the last such pair."""
    ends = list(re.finditer(rf"{quote}\s*(?:,\s*)?\)(?P<closing>[ \t)]*(?:[\n#`]|\Z))?", value))
    end = next((end for end in ends if end["closing"] is not None), ends[-1] if ends else None)
    return None if end is None else value[: end.start()]
