"""The only way for text to reach a terminal: removes what moves the cursor or changes the text's direction."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

_ACTS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and newline, delete, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of text
    r"\u2028\u2029\ud800-\udfff]"  # other line ends; lone surrogates, which cannot be encoded
)


def harmless(text: str) -> str:
    """Remove the characters that act on a terminal instead of appearing in it."""
    return _ACTS.sub("", text)


def json_text(value: object, **options: Any) -> str:
    """A value as JSON that is safe to print: characters that act on a terminal are escaped, so nothing is lost."""
    written = json.dumps(value, ensure_ascii=False, **options)
    return _ACTS.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


def say(text: str, *, error: bool = False) -> None:
    """Print a line without the characters that act on a terminal. Every line printed without a console uses this."""
    print(harmless(text), file=sys.stderr if error else sys.stdout, flush=True)


class HarmlessConsole(Console):
    """A console that passes all printed text through `harmless`; its own colours stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments to print, made harmless."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)
