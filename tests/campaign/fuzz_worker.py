"""The process in which attempts of bad input run: python -m tests.campaign.fuzz_worker reads "AREA NUMBER" lines."""

from __future__ import annotations

import faulthandler
import importlib
import os
import resource
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from tests.campaign.trial import Trial

SECONDS = 60
"""What one attempt may take. It takes well below one second; a machine that is busy with other work needs room."""
MEMORY = 6 << 30
"""Bytes of address space; what asks for more gets a MemoryError."""


def main() -> None:
    """Answer each line with the attempt's trials as one line of JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an attempt prints is no answer
    for line in sys.stdin:
        area, number = line.split()
        work = importlib.import_module(f"tests.campaign.fuzz_{area}").attempt
        folder = Path(tempfile.mkdtemp(prefix="reground-fuzz-"))
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            trials: list[Trial] = work(int(number), folder)
        finally:
            faulthandler.cancel_dump_traceback_later()
            shutil.rmtree(folder, ignore_errors=True)
        trials = [replace(each, what=each.what.encode("utf-8", "backslashreplace").decode()) for each in trials]
        answers.write(TypeAdapter(list[Trial]).dump_json(trials) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
