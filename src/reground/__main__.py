"""The command line, as `reground` and as `python -m reground`. Ctrl-C while its modules are read ends it in silence."""

import sys

try:
    from reground.app.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    main()
