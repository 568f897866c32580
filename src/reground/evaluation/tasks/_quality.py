"""A judge's prompt where no reference decides: a mark from 1 to 5 by named criteria."""

from __future__ import annotations

import re

from reground.core.errors import ParseError
from reground.core.untrusted import neutralise

MARKS = 5

_INSTRUCTION = (
    f'"""Judge how well an answer does what is asked, by these criteria: {{criteria}}. A mark is a whole number from 1 '
    f'(bad) to {MARKS} (very good); 3 is middling."""'
)
_MARK = re.compile(r"^[ \t\r`]*+mark\s*+(?::\s*+int\s*+)?+=\s*+([^#\n`]*)", re.MULTILINE)


def quality_prompt(question: str, answer: str, criteria: str) -> str:
    """The prompt. Texts are string literals, so an answer cannot end its line and speak as the judge."""
    return "\n\n".join(
        [
            _INSTRUCTION.format(criteria=criteria),
            f"question = {neutralise(question)!r}\nanswer = {neutralise(answer)!r}",
            f"Continue with two lines: a comment that gives the reason, then `mark = ` and 1 to {MARKS}.",
        ]
    )


def parse_mark(reply: str) -> float:
    """The first `mark = N`, from 0 for the lowest mark to 1 for the highest. Raises ParseError."""
    found = _MARK.search(reply)
    if found is None:
        raise ParseError("there is no line `mark = N`.")
    said = found[1].strip()
    if said not in map(str, range(1, MARKS + 1)):
        raise ParseError(f"`mark` must be a whole number from 1 to {MARKS}.")
    return (int(said) - 1) / (MARKS - 1)
