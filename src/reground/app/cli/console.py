"""The standard streams and what is printed on them.

All text reaches a terminal through `say`, `note` or a console of `consoles`: each removes the characters that would
move the cursor or change the text's direction. `steady_streams` keeps a command alive when a stream is closed, when its
reader has left (`| head`), or when its encoding lacks a character.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from reground.core.errors import EXIT_FAILED_QUESTIONS

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from reground.evaluation.report import Table

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
    text = json.dumps(value, ensure_ascii=False, **options)
    return _ACTS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def say(text: str) -> None:
    """Print a line on standard output: without colours, and without line breaks of the terminal's width."""
    print(harmless(text), flush=True)


def note(text: str) -> None:
    """Print a line on standard error."""
    print(harmless(text), file=sys.stderr, flush=True)


def print_json(value: object, **options: Any) -> None:
    """Print a value as JSON on standard output."""
    say(json_text(value, **options))


class HarmlessConsole(Console):
    """A console that passes all printed text through `harmless`; its own colours stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments to print, made harmless."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)


def consoles() -> tuple[Console, Console]:
    """Standard output for results, standard error for everything else."""
    return HarmlessConsole(highlight=False), HarmlessConsole(stderr=True, highlight=False)


def print_tables(*tables: Table) -> None:
    """Print tables on standard output: with the columns that the terminal has room for, into a file with all."""
    console, _ = consoles()
    console.width = console.width if console.is_terminal else 10_000
    for table in tables:
        console.print(table.terminal(console.width))


def end_if_failed(failed: int, then: str = "the same command tries them again") -> None:
    """Where questions failed, say so and what is to be done, and end with the exit code for it. Raises typer.Exit."""
    if failed:
        note(f"{plural(failed, 'question')} failed: {then}")
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def human_tokens(count: int) -> str:
    """1234 as 1.2k."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1e6:.2f}M"


def human_usd(usd: float) -> str:
    """An amount with four decimals, or with six where four would show nothing."""
    return f"{usd:.{6 if 0 < usd < 0.001 else 4}f} USD"


def human_time(seconds: float) -> str:
    """Seconds as text, in seconds, minutes, hours or days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours = seconds / 3600
    return f"{seconds / 60:.0f} min" if hours < 1.5 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


def plural(count: int, thing: str) -> str:
    """How many things there are: 1 call, 2 calls."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def listed(names: str) -> list[str]:
    """The names in an option that takes several, separated by commas."""
    return [name for name in map(str.strip, names.split(",")) if name]


class _Unread(io.FileIO):
    """Writes to a descriptor, and to nowhere once its reader has left, so that the command keeps its own exit code."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            to_nowhere(self.fileno())
            return memoryview(data).nbytes


def to_nowhere(descriptor: int) -> None:
    """Redirect a descriptor to the null device."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    if nowhere != descriptor:
        os.close(nowhere)


def steady_streams() -> None:
    """Replace the standard streams of the process. A stream that a caller has replaced stays unchanged."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed; otherwise the next open file, say a journal, gets this number and all that is printed
            to_nowhere(descriptor)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if sys.stdout is sys.__stdout__:
        sys.stdout = _steady(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _steady(sys.stderr, 2)


def _steady(stream: TextIO | None, descriptor: int) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_Unread(descriptor, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=descriptor == 2 or os.isatty(descriptor),
    )
