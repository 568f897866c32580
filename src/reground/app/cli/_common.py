"""What several commands share: the consoles, plain lines, and the format of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reground.app.cli.codes import EXIT_FAILED_QUESTIONS

if TYPE_CHECKING:
    from rich.console import Console


def consoles() -> tuple[Console, Console]:
    """Standard output for results, standard error for everything else."""
    from reground.app.cli.terminal import HarmlessConsole

    return HarmlessConsole(highlight=False), HarmlessConsole(stderr=True, highlight=False)


def say(console: Console, text: str) -> None:
    """Print a text as it is: no markup, no colours, and no line breaks of the terminal's width."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def print_json(value: object, **options: Any) -> None:
    """Print a value as JSON on standard output."""
    from reground.app.cli.terminal import json_text
    from reground.app.cli.terminal import say as say_plain

    say_plain(json_text(value, **options))


def end_if_failed(err: Console, failed: int, then: str = "the same command tries them again") -> None:
    """Where questions failed, say so and what is to be done, and end with the exit code for it. Raises typer.Exit."""
    if failed:
        from typer import Exit

        say(err, f"{failed} questions failed: {then}")
        raise Exit(EXIT_FAILED_QUESTIONS)


def human_tokens(count: int) -> str:
    """1234 as 1.2k."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1e6:.2f}M"


def human_usd(usd: float) -> str:
    """An amount with four decimals, or with six where four would show nothing."""
    return f"{usd:.{6 if 0 < usd < 0.001 else 4}f} USD"


def human_time(seconds: float) -> str:
    """Seconds as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def listed(names: str) -> list[str]:
    """The names in an option that takes several, separated by commas."""
    return [name for name in map(str.strip, names.split(",")) if name]
