"""The first thing in a sandbox: take the limits on, then become the program or its tests."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any


def confine(limits: dict[str, int | None]) -> None:
    """Drop to an unprivileged user if one is named, and set limits that cannot be raised again."""
    user = limits["user"]
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    for name in ("AS", "CPU", "FSIZE", "NPROC", "NOFILE", "CORE"):
        limit = limits[name]
        if limit is not None:
            # At the soft limit on CPU comes a signal of its own, at the hard one a kill like any other.
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit + (name == "CPU")))


def main(job_file: str) -> None:
    """Read the job and do it."""
    with Path(job_file).open(encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    if job["role"] == "tests":
        from .tests import main as become
    else:
        from .program import main as become
    confine(job["confine"])
    sys.path[:] = [path for path in sys.path if path != job["harness"]] + job["packages"]
    sys.argv = ["program.py"]
    become(job)
