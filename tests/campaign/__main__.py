"""The long form: python -m tests.campaign [FOLDER] [--only PART ...] [--number N]."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import platform
import sys
from pathlib import Path

from tests.campaign import edges, escapes, faults, forging, fuzz, kills, untrusted
from tests.campaign.runner import fallen, run, table

PARTS = (kills.PART, faults.PART, forging.PART, escapes.PART, fuzz.PART, untrusted.PART, edges.PART)
"""In the order of the table."""


def main() -> int:
    """Run the parts that were asked for; exit code 1 if any promise fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("campaign"), help="records; a later run goes on")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], help="these parts, not all")
    parser.add_argument("--number", type=int, help="one attempt by its number, to see it again; nothing is recorded")
    given = parser.parse_args()
    parts = [part for part in PARTS if not given.only or part.name in given.only]
    if given.number is not None:
        for part in parts:
            for trial in asyncio.run(part.attempt(given.number)):
                print("held" if trial.held else "FELL", trial.kind, trial.what, sep=": ")
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    tried = [(part, asyncio.run(run(part, part.long, given.folder))) for part in parts]
    text = f"{datetime.date.today()}, {platform.platform()}, Python {platform.python_version()}\n\n{table(tried)}"
    (given.folder / "table.md").write_text(text)
    print(text)
    bad = [line for _, trials in tried for line in fallen(trials)]
    print(*bad, sep="\n", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
