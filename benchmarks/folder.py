"""A folder of mixed files as `reground index` meets it: time, memory, updates, Ctrl-C and going on after it.

    python -m benchmarks.folder [--files 10000] [--megabytes 2000] [--seed 7] [--folder DIR] [--json FILE]

The folder is made from a seed (`mixed.py`) and removed afterwards; the default is small. Every step runs the command in
a process of its own: a new index that is stopped by Ctrl-C while files are listed, again when half of them are read,
and then let run to its end, which goes on from what was saved once a minute; the same with nothing changed, and with
ten files changed. Processor seconds stand beside those of the clock, for they say more on a busy machine; memory is the
most that the process held resident, mapped files included. "Exit" is the time from Ctrl-C to the end of the process.
Only on Linux, where it can be seen when files are listed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
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
_PROGRESS = "progress"
_FILES = re.compile(r"indexing: (\d+)/(\d+) files")


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
    print("| step | s | CPU s | exit s | memory MB | documents read | passages |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    out = place / "index"
    rows = [_told("Ctrl-C while files are listed", _index(source, out, lambda child: _listing(child, source)))]
    rows.append(_told("Ctrl-C in the middle", _index(source, out, lambda child: _half(child, place / _PROGRESS))))
    rows.append(_told("going on to the end", _index(source, out)))
    seconds, cpu = (rows[1][name] + rows[2][name] for name in ("seconds", "cpu"))
    rows.append(_told("nothing changed", _index(source, out)))
    folder.change(CHANGED)
    rows.append(_told(f"{CHANGED} files changed", _index(source, out)))
    print(
        f"the whole: {seconds:.0f} s, {cpu:.0f} CPU s; a second {files / seconds:.1f} files and "
        f"{size / 1e6 / seconds:.2f} MB, a CPU second {files / cpu:.1f} files and {size / 1e6 / cpu:.2f} MB"
    )
    return rows


def _index(source: Path, out: Path, moment: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Run the command; with a `moment`, send Ctrl-C when it returns."""
    command = [sys.executable, "-m", "reground", "index", str(source), "--out", str(out), "--json"]
    with (out.parent / "said").open("w+b") as said, (out.parent / _PROGRESS).open("w+b") as progress:
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=said, stderr=progress)
        sent = 0.0
        if moment is not None:
            moment(child.pid)
            sent = time.monotonic()
            os.kill(child.pid, signal.SIGINT)
        _, status, used = os.wait4(child.pid, 0)
        ended, child.returncode = time.monotonic(), os.waitstatus_to_exitcode(status)
        said.seek(0)
        progress.seek(0)
        if child.returncode not in ((0,) if moment is None else (0, 130, -signal.SIGINT)):
            raise SystemExit(progress.read().decode())
        report = json.loads(said.read() or b"{}")
    return {
        "seconds": ended - began, "exit": ended - sent if sent else None, "code": child.returncode,
        "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024,
        "read": report.get("read"), "passages": report.get("passages"),
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


def _half(child: int, progress: Path) -> None:
    """Wait until a process tells that half of the files are read, or has ended."""
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        told = _FILES.findall(progress.read_text(errors="replace"))
        if told and 2 * int(told[-1][0]) >= int(told[-1][1]):
            return
        time.sleep(100 * _LOOK)


def _told(step: str, row: dict[str, Any]) -> dict[str, Any]:
    """Print the row."""
    left = f"{row['exit']:.2f}" if row["exit"] is not None else ""
    read, passages = (f"{row[name]:,}" if row[name] is not None else "" for name in ("read", "passages"))
    figures = f"{row['seconds']:.2f} | {row['cpu']:.1f} | {left} | {row['memory']:.0f} | {read} | {passages}"
    print(f"| {step} | {figures} |", flush=True)
    return {"step": step, **row}


if __name__ == "__main__":
    main()
