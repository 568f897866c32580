"""`python -m reground` runs the command line."""

from reground.app.cli import main

if __name__ == "__main__":
    main()
