"""The command line: a file for each command, and one place that turns errors into exit codes.

Exit codes: 0 done; 1 no answer, or an empty one; 2 the command, the configuration or the environment is wrong; 3 an
evaluation finished with failed questions; 4 an answer that rests on no document; 70 a bug in reground; 130 interrupted
(everything is kept, and the same command resumes).

Imports stand in the functions here, so that Ctrl-C during them, which take most of a short command's time, is caught.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from reground.core.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_SURROUNDINGS

_LONGEST = 1_000
"""The most characters in an error message."""
_BUSY = ("reground-index", "reground-fit", "llama", "reground-transformers", "ddgs")
"""How the names of threads begin that index, fit, load a model, read a prompt or search."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    try:
        code = _run_and_flush(arguments)
    except KeyboardInterrupt:  # between the end of the command and here
        code = _interrupted()
        _end_at_once(code)
    if code == EXIT_INTERRUPTED and any(thread.name.startswith(_BUSY) for thread in threading.enumerate()):
        # The thread is in a library call that nothing can stop, and a normal exit would break the interpreter under it.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _run_and_flush(arguments: Sequence[str] | None) -> int:
    """Run one command, write out what it printed, and return the exit code."""
    from reground.app.cli.console import steady_streams, to_nowhere

    steady_streams()
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:  # the disk is full; the buffered rest would fail again at exit
        to_nowhere(sys.stdout.fileno())
        if code == 0:
            code = _report(f"error: the output cannot be written: {error.strerror}; what was recorded is kept")
    _end_at_once(code)
    return code


def _end_at_once(code: int) -> None:
    """From now on let Ctrl-C end the process with its exit code, without the rest of the interpreter's shutdown."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))


class _Warnings(logging.Handler):
    """Prints what reground's own loggers say as every other line: it may hold a server's words."""

    def emit(self, record: logging.LogRecord) -> None:
        from reground.app.cli.console import note

        note(self.format(record))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An error that the user can fix shows no stack trace."""
    log, warnings = logging.getLogger("reground"), _Warnings()
    before, log.propagate = log.propagate, False
    log.addHandler(warnings)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _interrupted()
    finally:
        log.removeHandler(warnings)
        log.propagate = before


def _run(arguments: Sequence[str] | None) -> int:
    import typer

    from reground.app.cli.commands import cli
    from reground.core.errors import RegroundError
    from reground.core.user_code import place_of, user_places

    try:
        argv = list(sys.argv[1:] if arguments is None else arguments)
        argv = [*argv[1:], "--help"] if argv[:1] == ["help"] else argv
        code = cli(args=argv, obj=argv, prog_name="reground", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except RegroundError as error:
        return _report(f"error: {' '.join(str(error).split())}", error.exit_code)
    except Exception as error:
        # By name: some releases of typer have no public name for the base class of the option parser's errors.
        if any(base.__name__ == "ClickException" for base in type(error).__mro__):
            return _show_usage(error, argv)
        place = place_of(error)
        if isinstance(error, OSError) and error.errno is not None and place is None:
            return _report(f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
        if os.environ.get("REGROUND_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        if place is not None:
            return _report(f"error: {place}: {what} (set REGROUND_DEBUG=1 to see how it got there)")
        if own := ", ".join(user_places()):
            return _report(f"error: {what}; it arose where reground uses {own} (set REGROUND_DEBUG=1 to see where)")
        return _report(f"internal error: {what} (set REGROUND_DEBUG=1 to see where; please report it)", EXIT_BUG)
    # typer turns a Ctrl-C that no command handled into this code
    return _interrupted() if code == EXIT_INTERRUPTED else code if isinstance(code, int) else 0


def _interrupted() -> int:
    return _report("interrupted; everything so far is kept: the same command continues from here", EXIT_INTERRUPTED)


def _show_usage(error: Any, argv: Sequence[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # the whole help
        return _report("error: a command is missing: name one of those above")
    path = getattr(error.ctx, "command_path", "reground")
    message = error.format_message().replace("Value error, ", "").rstrip(".")  # pydantic's words
    return _report(f"error: {path}: {_short(message)} ({_remedy(error, argv) or f'{path} -h shows how'})")


def _remedy(error: Any, argv: Sequence[str]) -> str | None:
    """What may help: an option's place, the file that takes it, its two dashes, or quotes. None if nothing is known."""
    option = getattr(error, "option_name", None)
    if option is not None and option in getattr(getattr(error.ctx, "command", None), "in_file", ()):
        return f"write {option[2:].replace('-', '_')} = ... in a TOML file and pass --config FILE"
    if option is not None and error.ctx is not None and error.ctx.parent is None:
        return "an option stands behind its command, as in reground ask --corpus FOLDER"
    if "extra argument" not in error.message:
        return None
    for word in argv:  # also with the dash that a text editor makes of two
        if option := re.match(r"\A(?:-|[\u2010-\u2015\u2212]++)([a-z]{2}.*+)", word):
            return f"did you mean --{option.group(1)}?"
    return "a text with spaces stands in quotes, and a value behind its option"


def _report(line: str, code: int = EXIT_SURROUNDINGS) -> int:
    """Print a line on standard error. Returns the exit code."""
    from reground.app.cli.console import note

    note(_short(line))
    return code


def _short(line: str) -> str:
    """Cut the middle out of a message that is too long."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST * 2 // 3]} ... {line[-_LONGEST // 3 :]}"
