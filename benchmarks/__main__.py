"""All benchmarks, one after the other: python -m benchmarks [--full]

Without --full the sizes are small and it takes a few minutes; with it BM25 goes up to 3 million passages, and it takes
hours.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

QUICK = {"overhead": ["--flights", "1,200,1000"], "retrieval": [], "bm25": ["--sizes", "5000,300000"]}
FULL = QUICK | {"bm25": ["--sizes", "5000,300000,3000000"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="BM25 at 3 million passages too")
    chosen = FULL if parser.parse_args().full else QUICK
    failed = 0
    for name, arguments in chosen.items():
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
