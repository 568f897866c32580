"""How long it takes until reground is there: `import reground`, the core's import, and `reground --help`.

Each in a fresh interpreter, with the bare interpreter's own start taken beside them; the median of several runs.

    python -m benchmarks.startup [--runs 9]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

COMMANDS = {
    "python alone": ["-c", "pass"],
    "import reground": ["-c", "import reground"],
    "import reground.core.run": ["-c", "import reground.core.run"],
    "import reground.models.openai": ["-c", "import reground.models.openai"],
    "reground --help": [
        "-c",
        "import sys; from reground.app.cli import main; sys.argv = ['reground', '--help']; main()",
    ],
}


def seconds(arguments: Sequence[str]) -> float:
    """Wall-clock time of one run."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def table(runs: int) -> str:
    """A Markdown table; the runs of all commands are interleaved, after one that warms the disk."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(runs + 1):
        for name, arguments in COMMANDS.items():
            taken = seconds(arguments)
            if number > 0:
                times[name].append(taken)
    base = statistics.median(times["python alone"])
    lines = ["| | median s | least s | over python alone, s |", "|---|---:|---:|---:|"]
    for name, each in times.items():
        middle = statistics.median(each)
        lines.append(f"| {name} | {middle:.3f} | {min(each):.3f} | {middle - base:.3f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=9, help="runs of each command")
    parser.add_argument("--quick", action="store_true", help="three runs of each")
    settings = parser.parse_args(arguments)
    print(table(3 if settings.quick else settings.runs))


if __name__ == "__main__":
    main()
