"""The command line: one file per group of commands, and one place that turns errors into exit codes.

Exit codes: 0 done; 1 no answer, or an empty one; 2 the command, the configuration or the environment is wrong; 3 an
evaluation finished with failed questions; 4 an answer that rests on no document; 70 a bug in reground; 130 interrupted
(everything is kept, and the same command resumes).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reground.app.cli.codes import EXIT_BUG, EXIT_INTERRUPTED, EXIT_SURROUNDINGS
from reground.app.cli.streams import steady_streams, to_nowhere

_LONGEST = 1_000
"""The most characters in an error message."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    try:
        code = _written(arguments)
    except KeyboardInterrupt:  # between the end of the command and here
        code = _interrupted()
        _end_at_once(code)
    if code == EXIT_INTERRUPTED and _is_busy():
        # The thread is in a library call that nothing can stop, and a normal exit would break the interpreter under it.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _written(arguments: Sequence[str] | None) -> int:
    """Run one command, write out what it printed, and return the exit code."""
    steady_streams()
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:  # the disk is full; the buffered rest would fail again at exit
        to_nowhere(sys.stdout.fileno())
        if code == 0:
            _say(f"error: the output cannot be written: {error.strerror}; what was recorded is kept")
            code = EXIT_SURROUNDINGS
    _end_at_once(code)
    return code


def _end_at_once(code: int) -> None:
    """From now on let Ctrl-C end the process with its exit code, without the rest of the interpreter's shutdown."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))


def _is_busy() -> bool:
    """Whether a thread builds an index, fits or loads a model, reads a prompt or searches the web."""
    corpora = sys.modules.get("reground.app.documents")  # not loaded, it has begun nothing
    fits = sys.modules.get("reground.app.cli.train")
    llama = sys.modules.get("reground.models.gguf")
    ddgs = sys.modules.get("reground.web.engines.ddgs")
    hf = sys.modules.get("reground.models.hf")
    ours = (corpora and corpora.BACKGROUND, fits and fits.THREAD)
    named = (*ours, llama and llama.THREADS, hf and hf.THREADS, ddgs and ddgs.THREAD)
    busy = tuple(filter(None, named))
    return any(thread.name.startswith(busy) for thread in threading.enumerate())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An error that the user can fix shows no stack trace."""
    try:
        with _shown_warnings():
            return _run(arguments)
    except KeyboardInterrupt:  # during the imports, which take most of a short command's time
        return _interrupted()


def _run(arguments: Sequence[str] | None) -> int:
    import typer

    from reground.app.cli.commands import cli
    from reground.core.errors import RegroundError
    from reground.core.user_code import place_of

    try:
        code = cli(args=None if arguments is None else list(arguments), prog_name="reground", standalone_mode=False)
        # typer turns a Ctrl-C that no command handled into this code
        return _interrupted() if code == EXIT_INTERRUPTED else code if isinstance(code, int) else 0
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except RegroundError as error:
        _say(f"error: {' '.join(str(error).split())}")
        return error.exit_code
    except Exception as error:
        if _is_usage(error):
            return _show_usage(error)
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


class _Warnings(logging.Handler):
    """Prints what reground's own loggers say as every other line: it may hold a server's words."""

    def emit(self, record: logging.LogRecord) -> None:
        from reground.app.cli.terminal import say

        say(self.format(record), error=True)


@contextmanager
def _shown_warnings() -> Iterator[None]:
    log, shown = logging.getLogger("reground"), _Warnings()
    before, log.propagate = log.propagate, False
    log.addHandler(shown)
    try:
        yield
    finally:
        log.removeHandler(shown)
        log.propagate = before


def _interrupted() -> int:
    _say("interrupted; everything so far is kept: the same command continues from here")
    return EXIT_INTERRUPTED


def _is_usage(error: Exception) -> bool:
    """Whether the option parser raised it.

    The check is by name, because some releases of typer have no public name for the parser's base class.
    """
    return any(base.__name__ == "ClickException" for base in type(error).__mro__)


def _file_options(context: Any) -> set[str]:
    """The options of a command that only the configuration file has."""
    names = getattr(getattr(context, "command", None), "callback", None)
    in_file = getattr(names, "in_file", ())
    return {option for each in context.command.params if each.name in in_file for option in each.opts}


def _show_usage(error: Any) -> int:
    name = getattr(error, "option_name", None)
    if name is not None and name in _file_options(error.ctx):
        key = name[2:].replace("-", "_")
        _say(f"error: {name} is no option of the command line: write {key} = ... in reground.toml, or pass --config")
        return EXIT_SURROUNDINGS
    error.message = _short(str(error.message).removeprefix("Value error, "))  # pydantic's words
    error.show()
    if type(error).__name__ == "NoArgsIsHelpError":  # it shows only the help
        _say("error: a command is missing: name one of those above")
    return int(error.exit_code)


def _say(line: str) -> None:
    from reground.app.cli.terminal import say

    say(_short(line), error=True)


def _short(line: str) -> str:
    """Cut the middle out of a message that is too long."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST * 2 // 3]} ... {line[-_LONGEST // 3 :]}"
