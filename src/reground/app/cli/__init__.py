"""The command line: one file a group of commands, and one place where errors become exit codes.

Exit codes: 0 done; 1 no answer, or an empty one; 2 something in the command, the configuration or the surroundings is
wrong; 3 an evaluation finished with failed questions; 4 an answer, but no document
is behind it; 70 a bug of ours; 130 interrupted (everything is kept, the same command goes on).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

EXIT_SURROUNDINGS = 2
EXIT_INTERRUPTED = 130
EXIT_BUG = 70
EXIT_UNGROUNDED = 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with a meaningful exit code."""
    code = run(arguments)
    if code == EXIT_INTERRUPTED and _is_indexing():
        # It is inside a library's call, which nothing can stop; the interpreter must not be taken down under it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    try:
        sys.stdout.flush()
    except OSError as error:  # it is on a full disk; what waits would fail once more when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0:
            _say(f"error: the output cannot be written: {error.strerror}; what was recorded is kept")
            code = EXIT_SURROUNDINGS
    sys.exit(code)


def _is_indexing() -> bool:
    from reground.app.corpora import BACKGROUND

    return any(thread.name == BACKGROUND for thread in threading.enumerate())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. No error a user can act on shows a stack trace."""
    import typer

    from reground.app.cli.commands import cli
    from reground.core.errors import RegroundError

    try:
        code = cli(args=None if arguments is None else list(arguments), prog_name="reground", standalone_mode=False)
        # typer makes a Ctrl-C that no command has dealt with into this code
        return _interrupted() if code == EXIT_INTERRUPTED else code if isinstance(code, int) else 0
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RegroundError as error:
        _say(f"error: {' '.join(str(error).split())}")
        return error.exit_code
    except Exception as error:
        if _is_usage(error):
            return _show_usage(error)
        from reground.app.catalogue import place_of

        if isinstance(error, OSError) and error.errno is not None and place_of(error) is None:
            _say(f"error: {'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}")
            return EXIT_SURROUNDINGS
        if os.environ.get("REGROUND_DEBUG"):
            raise
        if (place := place_of(error)) is not None:
            _say(f"error: {place}: {type(error).__name__}: {error} (set REGROUND_DEBUG=1 to see how it got there)")
            return EXIT_SURROUNDINGS
        _say(f"internal error: {type(error).__name__}: {error} (set REGROUND_DEBUG=1 to see where; please report it)")
        return EXIT_BUG


def _interrupted() -> int:
    _say("interrupted; everything so far is kept: the same command goes on from here")
    return EXIT_INTERRUPTED


def _is_usage(error: Exception) -> bool:
    """Whether it is the option parser's complaint; the parser's base class has no public name in every release of typer."""
    return any(base.__name__ == "ClickException" for base in type(error).__mro__)


def _show_usage(error: Any) -> int:
    from reground.app.cli.terminal import harmless

    error.message = harmless(str(error.message))
    error.show()
    return int(error.exit_code)


def _say(line: str) -> None:
    from reground.app.cli.terminal import harmless

    print(harmless(line), file=sys.stderr)
