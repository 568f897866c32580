"""`python -m reground` is the command line."""

from reground.app.cli import main

if __name__ == "__main__":
    main()
