"""The one place where text meets a terminal: nothing that moves a cursor or turns text round comes through."""

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
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, delete, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of a text round
    r"\u2028\u2029\ud800-\udfff]"  # other line ends, and halves of characters, which cannot be written
)


def harmless(text: str) -> str:
    """The text without characters that do something to a terminal instead of standing in it."""
    return _ACTS.sub("", text)


def json_text(value: object, **options: Any) -> str:
    """A value as JSON that is safe to look at: such characters are written as escapes, so nothing is lost."""
    written = json.dumps(value, ensure_ascii=False, **options)
    return _ACTS.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


def say(text: str, *, error: bool = False) -> None:
    """Print a line as it stands, without what acts on a terminal; every line that no console prints goes this way."""
    print(harmless(text), file=sys.stderr if error else sys.stdout, flush=True)


class HarmlessConsole(Console):
    """A console that passes all that it is given to print through `harmless`; its own colours stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)
