"""A folder of mixed files as `reground index` meets it: time, memory, updates, Ctrl-C and going on after it.

    python -m benchmarks.folder [--files 10000] [--megabytes 2000] [--seed 7] [--folder DIR] [--json FILE]

The folder is made from a seed (`mixed.py`) and removed afterwards; the default is small. Every step runs the command in
a process of its own: an index of the whole folder; the same with nothing changed; with ten files changed; a new index
that is stopped by Ctrl-C while files are listed, again in the middle, and then let run to its end. Processor seconds
stand beside those of the clock, for they say more on a busy machine; memory is the most that the process held resident,
mapped files included. Only on Linux, where it can be seen when files are listed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.mixed import Folder

CHANGED = 10
_LOOK = 0.002  # seconds between two looks at what a process does
_PATIENCE = 60.0


def main(arguments: list[str] | None = None) -> None:
    """Make a folder, index it and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where folder and index are put; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="reground-folder-", dir=options.folder))
    try:
        rows = measure(place, options.files, options.megabytes * 1e6, options.seed)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def measure(place: Path, files: int, size: float, seed: int) -> list[dict[str, Any]]:
    """All steps, each with its figures; they are printed as they come."""
    began = time.monotonic()
    source = place / "documents"
    source.mkdir()
    folder = Folder(source, seed)
    size = folder.make(files, int(size))
    print(f"{files} files, {size / 1e6:.0f} MB, made in {time.monotonic() - began:.0f} s", flush=True)
    print("| step | s | CPU s | files/s | MB/s | memory MB | documents read | passages |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    rows = [_told("a new index", _index(source, place / "index"), files, size)]
    rows.append(_told("nothing changed", _index(source, place / "index")))
    folder.change(CHANGED)
    rows.append(_told(f"{CHANGED} files changed", _index(source, place / "index")))
    again = place / "again"
    stopped = _index(source, again, lambda child: _listing(child, source))
    rows.append(_told("Ctrl-C while listing, until the exit", stopped))
    half = rows[0]["seconds"] / 2
    rows.append(_told("Ctrl-C in the middle, until the exit", _index(source, again, lambda _: time.sleep(half))))
    rows.append(_told("going on after it", _index(source, again)))
    return rows


def _index(source: Path, out: Path, moment: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Run the command; with a `moment`, send Ctrl-C when it returns and take the time from there to the exit."""
    command = [sys.executable, "-m", "reground", "index", str(source), "--out", str(out), "--json"]
    with (out.parent / "said").open("w+b") as said, (out.parent / "progress").open("w+b") as progress:
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=said, stderr=progress)
        if moment is not None:
            moment(child.pid)
            began = time.monotonic()
            child.send_signal(signal.SIGINT)
        _, status, used = os.wait4(child.pid, 0)
        seconds, child.returncode = time.monotonic() - began, os.waitstatus_to_exitcode(status)
        said.seek(0)
        progress.seek(0)
        if child.returncode not in ((0,) if moment is None else (0, 130, -signal.SIGINT)):
            raise SystemExit(progress.read().decode())
        report = json.loads(said.read() or b"{}")
    return {
        "seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024,
        "read": report.get("read"), "passages": report.get("passages"), "code": child.returncode,
    }  # fmt: skip


def _listing(child: int, source: Path) -> None:
    """Wait until a process has a folder of the corpus open."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            opened = [each.readlink() for each in Path(f"/proc/{child}/fd").iterdir()]
        except OSError:
            opened = []
        if any(each.is_relative_to(source) for each in opened):
            return
        time.sleep(_LOOK)


def _told(step: str, row: dict[str, Any], files: int = 0, size: float = 0) -> dict[str, Any]:
    seconds = row["seconds"]
    rates = f"{files / seconds:.0f} | {size / 1e6 / seconds:.2f}" if files else " | "
    read, passages = (f"{row[name]:,}" if row[name] is not None else "" for name in ("read", "passages"))
    print(
        f"| {step} | {seconds:.2f} | {row['cpu']:.1f} | {rates} | {row['memory']:.0f} | {read} | {passages} |",
        flush=True,
    )
    return {"step": step, **row}


if __name__ == "__main__":
    main()
