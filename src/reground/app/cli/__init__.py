"""The command line: one file a group of commands, and one place where errors become exit codes.

Exit codes: 0 done; 1 no answer; 2 something in the command, the configuration or the surroundings is
wrong; 70 a bug of ours; 130 interrupted (everything is kept, the same command goes on).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_INTERRUPTED = 130
EXIT_BUG = 70


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with a meaningful exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. No error a user can act on shows a stack trace."""
    import click

    from reground.app.cli.commands import cli
    from reground.core.errors import RegroundError

    try:
        code = cli(args=None if arguments is None else list(arguments), prog_name="reground", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted; everything so far is kept: the same command goes on from here")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RegroundError as error:
        _say(f"error: {' '.join(str(error).split())}")
        return error.exit_code
    except Exception as error:
        if os.environ.get("REGROUND_DEBUG"):
            raise
        _say(f"internal error: {type(error).__name__}: {error} (set REGROUND_DEBUG=1 to see where; please report it)")
        return EXIT_BUG


def _say(line: str) -> None:
    print(line, file=sys.stderr)
