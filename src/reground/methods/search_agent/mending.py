"""Mends replies that are almost Python: strings that contain a quote or a line break are quoted again for `ast`.

Small models write 'Schindler's List' in single quotes. The meaning is still clear, because the fields have known names:
a value ends at the last quote before the next field, or before the parenthesis that closes the call.
"""

from __future__ import annotations

import re

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
    """The call at the start of the text as valid Python; None if its fields are unclear. Takes linear time."""
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
            said = text[field.end() : following.start() if following else len(text)]
            content = _within(said, field["quote"]) if following else _last(said, field["quote"])
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


def _within(said: str, quote: str) -> str | None:
    """The value of a field before the next field: up to its last quote, if only punctuation follows that."""
    content, closed, rest = said.rpartition(quote)
    return content if closed and not rest.strip(" \t\r\n,)") else None


def _last(said: str, quote: str) -> str | None:
    """The value of the last field: up to the first quote and parenthesis that end a line, else the last such pair."""
    ends = list(re.finditer(rf"{quote}\s*(?:,\s*)?\)(?P<closing>[ \t)]*(?:[\n#`]|\Z))?", said))
    end = next((end for end in ends if end["closing"] is not None), ends[-1] if ends else None)
    return None if end is None else said[: end.start()]
