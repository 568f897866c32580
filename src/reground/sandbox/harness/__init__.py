"""What runs inside a sandbox: here the entry point, which limits the process, then the program or its tests.

These modules are shown to the sandbox as a package of their own. They import the standard library alone, and little of
it, because their start is part of every execution.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
from typing import Any

HELLO = b"reground: isolated\n"
"""What standard error begins with once the process is isolated. Before it are warnings of the isolation."""
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x20080522


def confine(limits: dict[str, int | None]) -> None:
    """Drop to an unprivileged user if one is named, and set limits that cannot be raised again."""
    user = limits["user"]
    if user is not None:
        # Give up every capability for good, including those that a program file might grant.
        for capability in range(64):
            if _libc("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                break
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        # A change of user keeps the inheritable set.
        if _libc("capset", struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)) != 0:
            raise OSError("the capabilities cannot be given up")
    for name in ("AS", "CPU", "FSIZE", "NPROC", "NOFILE", "CORE"):
        limit = limits[name]
        if limit is not None:
            hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard - (name == "CPU"))
            # The soft limit on CPU sends its own signal; the hard one kills.
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit + (name == "CPU")))


def _libc(name: str, *arguments: int | bytes) -> int:
    """Call the C library with only the C part of ctypes: importing the rest would take longer than everything else."""
    import _ctypes

    itself: Any = None
    function = _ctypes.dlsym(_ctypes.dlopen(itself, os.RTLD_NOW), name)
    result: int = _ctypes.call_cdeclfunction(function, arguments)
    return result


def main(place: str | int) -> None:
    """Read the job, from a file or from memory that is then emptied, and run it."""
    with open(place, "rb") as file:  # noqa: PTH123
        job: dict[str, Any] = json.load(file)
        if isinstance(place, int):
            os.ftruncate(place, 0)
    if job["role"] == "tests":
        from .tests import main as become
    else:
        from .program import main as become
    confine(job["confine"])
    os.write(2, HELLO)
    sys.path[:] = [path for path in sys.path if path != job["harness"]] + job["packages"]
    sys.argv = ["program.py"]
    become(job)
