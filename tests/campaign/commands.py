"""Commands as users start them, in processes of their own, and what can be said of every one of their ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.signals import heed_ctrl_c

PEAK_MIB = 600
MOST_SECONDS = 90.0


@dataclass(frozen=True)
class Done:
    """How a command ended. peak: MiB of memory at most. output: what it wrote on standard output."""

    code: int
    errors: str
    output: str = ""
    seconds: float = 0.0
    peak: float = 0.0

    def flaws(self, codes: Collection[int]) -> list[str]:
        """What no command may do: another exit code, a stack trace, two errors or none, hours, gigabytes."""
        found = (
            [] if self.code in codes else [f"exit code {self.code} is none of {sorted(codes)}: {self.errors[-400:]}"]
        )
        said = [line for line in self.errors.splitlines() if line.startswith(("error: ", "Error: ", "Usage: "))]
        if "Traceback" in self.errors or "internal error" in self.errors or "Exception ignored" in self.errors:
            found.append(f"it shows its inside: {self.errors[-1500:]}")
        elif self.code == 2 and len(said) != 1:
            found.append(f"not one clear line: {self.errors[-600:]}")
        if self.seconds > MOST_SECONDS or self.peak > PEAK_MIB:
            found.append(f"it took {self.seconds:.0f} s and {self.peak:.0f} MiB")
        return found


def environment(folder: Path, **more: object) -> dict[str, str]:
    """This process's environment, with a home, a key and a folder for temporary files of its own."""
    (folder / "tmp").mkdir(exist_ok=True)
    ours = {"REGROUND_HOME": folder / "home", "TMPDIR": folder / "tmp", "OPENAI_API_KEY": "sk-campaign", **more}
    return {**os.environ, **{name: str(value) for name, value in ours.items()}}


def run(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    *,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    before: Any = heed_ctrl_c,
) -> Done:
    """Run one command to its end, or for somewhat more than it may take. before: called in the new process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "reground", *words],
            cwd=folder,
            env=dict(env),
            stdin=stdin,
            stdout=out if stdout is None else stdout,
            stderr=err,
            preexec_fn=before,
        )
        peak = 0.0
        while (ended := os.waitpid(process.pid, os.WNOHANG))[0] == 0:
            peak = _peak_mib(process.pid, peak)
            if time.monotonic() - began > MOST_SECONDS + 5:
                process.kill()
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        seconds = time.monotonic() - began
        errors, output = (_text(file) for file in (err, out))
        return Done(process.returncode, errors, output, seconds, peak)


def _peak_mib(pid: int, before: float) -> float:
    """A process's peak by its own account, or what it was before. The kernel's for a child counts its parent's too."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return before
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), before)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
