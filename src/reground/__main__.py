"""The command line, as `reground` and as `python -m reground`."""

import sys


def main() -> None:
    """Run the command line. Its modules are read here, and not above, so that Ctrl-C meanwhile is caught."""
    try:
        from reground.app.cli import main as command_line
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
