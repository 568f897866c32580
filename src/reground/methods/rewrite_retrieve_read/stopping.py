"""The marker that ends a reply, which is also that of bold type."""

from __future__ import annotations

import re

from reground.text.queries import says_something

_BOLD = re.compile(r"^[^\S\n]*+\*\*([^*\n]{1,40}?)(?:[:：]\*\*|\*\*\s*+[:：])", re.MULTILINE)
"""A label in bold type."""
_OPEN = re.compile(
    r"(?:[:：]|[$€£¥]|\b(?:is|are|was|were)"
    r"|(?<=\w\s)(?-i:be|been|a|an|the|of|by|in|on|at|to|for|from|with|than|as|and|or|about|called|named))"
    r"[\s_\"'“($€£¥]{0,20}+\Z",
    re.IGNORECASE,
)
"""The end of a text that was about to say something: a label, "the answer is", or "it was built by"; not "Serie A"."""


def before(text: str, stop: str) -> str:
    """The text before the stop marker. A marker before which nothing is said yet is removed, as in **bold** type."""
    if not stop:
        return text
    plain = _BOLD.sub(r"\1:", text)
    head = plain.partition(stop)[0]
    return head if is_said(head) else plain.replace(stop, " ")


def is_said(text: str) -> bool:
    """Whether the text says something and does not end in a label, such as "Answer:", or in "the answer is the"."""
    return says_something(text) and not _OPEN.search(text)
