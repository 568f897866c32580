"""Reads a model's reply as one typed action: parsed with `ast`, never run.

Small models write almost Python, as 'Schindler's List' in single quotes. The meaning is still clear, because the fields
have known names: `mended` quotes their values again.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from reground.core.errors import ParseError
from reground.methods.search_agent.actions import (
    END,
    FIELDS,
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    ReviseAnswer,
    Search,
    Terminate,
)

LONGEST = 20_000
"""Maximum characters read of a reply. An action is far shorter, and the limit keeps nesting shallow."""

_STARTS = 8
"""Maximum number of starting lines to try. A model that repeats itself writes hundreds."""

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_FIELDS: Mapping[str, tuple[str, ...]] = {"ActionWrapper": ("thoughts", "action"), **FIELDS}
_START = re.compile(
    rf"^[ \t>`]*(?:[A-Za-z_]\w*\b[^=\n]{{0,60}}=[ \t]*|[A-Za-z_]+:[ \t]*)?((?:\w+\.)?(?:{'|'.join(_FIELDS)})[ \t]*\()",
    re.MULTILINE,
)
_TOKEN = re.compile(  # an unclosed string takes the rest of its line, so that no text is scanned twice
    r"'''.*?(?:'''|\Z)|\"\"\".*?(?:\"\"\"|\Z)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\\?\Z)"
    r"|\"(?:\\.|[^\"\\\n])*(?:\"|(?=\n)|\\?\Z)|#[^\n]*|[()]",
    re.DOTALL,
)


def parse_action(text: str) -> Action:
    """The first action in a reply. Raises only ParseError, if there is none or it is malformed.

    It may be in a Markdown fence, after prose or comments, after `ACTION_SELECTED =` with or without a type, in an
    ActionWrapper or bare; or the whole reply is a JSON object, its "action" the action's name.
    """
    return read_action(text, mend=False)[0]


def read_action(text: str, *, mend: bool) -> tuple[Action, bool]:
    """The first action in a reply, and whether its strings had to be quoted again. Raises ParseError.

    mend: whether to mend a reply without a valid call. A reply cut by the length limit should not be mended: its last
    quote is not its end.
    """
    whole = text[:LONGEST]
    text = whole.partition(END)[0]
    from_json = _from_json(whole) or _from_json(text)  # a string in JSON may hold the end's mark
    if from_json is not None:
        return from_json, False
    call = next((call for source in _sources(text) for call in _calls(source)), None)
    repaired = mend and call is None
    if repaired:
        starts = islice(_START.finditer(text), _STARTS)
        sources = (mended(text[start.start(1) :]) or "" for start in starts)
        call = next((call for source in sources for call in _calls(source)), None)
    if call is None:
        raise ParseError("There is no action in it that is valid Python.")
    return _action(call), repaired


def _from_json(text: str) -> Action | None:
    """The action in a JSON object; None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = data.get("action")
    if not isinstance(name, str) or name not in _READERS:
        return None
    arguments: dict[str, ast.expr] = {}  # the expressions that Python code has in place of the values
    for field, value in data.items():
        is_list = isinstance(value, list)
        arguments[field] = ast.List([ast.Constant(each) for each in value]) if is_list else ast.Constant(value)
    return _READERS[name](arguments)


def _sources(text: str) -> Iterator[str]:
    """The texts to parse, strictest first: the whole reply, each fenced block, each line that starts an action."""
    yield text
    for block in _FENCED.findall(text)[:_STARTS]:
        yield str(block)
    for start in islice(_START.finditer(text), _STARTS):
        yield _balanced(text[start.start(1) :])


def _balanced(text: str) -> str:
    """The text up to the parenthesis that closes its first one, or the whole text."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0 and token.group() == ")":
            return text[: token.end()]
    return text


def _calls(source: str) -> Iterator[ast.Call]:
    """The calls of known names that are statements or are assigned."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about "\d" in a string; here it does no harm
            module = ast.parse(source.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return
    for statement in module.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) else None
        if isinstance(value, ast.Call) and _name(value) in _FIELDS:
            yield value


def _name(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _action(call: ast.Call) -> Action:
    name, given = _name(call), _arguments(call)
    if name != "ActionWrapper":
        return _READERS[name](given)
    inner = given.get("action")
    if not isinstance(inner, ast.Call) or _name(inner) not in ("Search", "Terminate"):
        raise ParseError("The ActionWrapper holds neither Search(...) nor Terminate(...).")
    return _READERS[_name(inner)]({**given, **_arguments(inner)})


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """Arguments by name. Positional ones follow the order of the fields; unknown names are ignored."""
    names = _FIELDS[_name(call)]
    if len(call.args) > len(names) or any(isinstance(value, ast.Starred) for value in call.args):
        raise ParseError(f"{_name(call)} has arguments that cannot be told apart.")
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given:
            raise ParseError(f"{_name(call)} has arguments that cannot be told apart.")
        given[keyword.arg] = keyword.value
    return given


_Given = Mapping[str, ast.expr]


def _search(given: _Given) -> Action:
    query = " ".join(_text(given, "query").split())
    if not any(char.isalnum() for char in query):
        raise ParseError("The query is empty.")
    return Search(query, _thoughts(given))


def _link_selection(given: _Given) -> Action:
    listed = given.get("selected_link_ids")
    if not isinstance(listed, ast.List | ast.Tuple):
        raise ParseError("selected_link_ids is no list.")
    values = [each.value for each in listed.elts if isinstance(each, ast.Constant)]
    ids = [value for value in values if type(value) is int and 0 < value < 1_000_000]
    if len(ids) != len(listed.elts):
        raise ParseError("selected_link_ids holds something that is no link id.")
    return LinkSelection(_filled(given, "grounded_summarization"), tuple(dict.fromkeys(ids)), _thoughts(given))


def _check(given: _Given) -> Action:
    passed = given.get("passed")
    if not isinstance(passed, ast.Constant) or not isinstance(passed.value, bool):
        raise ParseError("passed is neither True nor False.")
    return CheckAnswer(passed.value)


_READERS: dict[str, Callable[[_Given], Action]] = {
    "Search": _search,
    "Terminate": lambda given: Terminate(_thoughts(given)),
    "LinkSelection": _link_selection,
    "Answer": lambda given: GivenAnswer(_filled(given, "answer"), _thoughts(given)),
    "Check_Answer": _check,
    "Revise_Answer": lambda given: ReviseAnswer(_filled(given, "revised_answer"), _thoughts(given)),
}


def _thoughts(given: _Given) -> str:
    return _text(given, "thoughts").strip() if "thoughts" in given else ""


def _filled(given: _Given, name: str) -> str:
    text = _text(given, name).strip()
    if not any(char.isalnum() for char in text):
        raise ParseError(f"{name} is empty.")
    return text


def _text(given: _Given, name: str) -> str:
    """A literal string, not a number, an f-string or an expression. Lone surrogates are replaced."""
    value = given.get(name)
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        raise ParseError(f"{name} is missing or no plain string.")
    return value.value.encode("utf-8", "replace").decode().replace("\0", "")


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
            content = _within(value, field["quote"]) if following else _last(value, field["quote"])
            if content is None:
                return None
            escaped = _UNSAFE.sub(lambda found: _SAFE.get(found.group(), found.group()), content)
            values[field["string"]] = f'"{escaped}"'
    return f"{kind}({', '.join(f'{field}={value}' for field, value in values.items())})"


def _fields(text: str) -> list[re.Match[str]]:
    """The fields before the first repeated one, where the next action begins."""
    found: dict[str, re.Match[str]] = {}
    for field in _FIELD.finditer(text):
        name = field["string"] or field["plain"] or "action"
        if name in found:
            break
        found[name] = field
    return list(found.values())


def _within(value: str, quote: str) -> str | None:
    """The value of a field before the next field: up to its last quote, if only punctuation follows that."""
    content, closed, rest = value.rpartition(quote)
    return content if closed and not rest.strip(" \t\r\n,)") else None


def _last(value: str, quote: str) -> str | None:
    """The value of the last field: up to the first quote and parenthesis that end a line, else the last such pair."""
    ends = list(re.finditer(rf"{quote}\s*(?:,\s*)?\)(?P<closing>[ \t)]*(?:[\n#`]|\Z))?", value))
    end = next((end for end in ends if end["closing"] is not None), ends[-1] if ends else None)
    return None if end is None else value[: end.start()]
