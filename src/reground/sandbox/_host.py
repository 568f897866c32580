"""The host's limits, which the sandbox cannot raise."""

from __future__ import annotations

import resource
from collections.abc import Mapping

from reground.core.errors import SandboxUnavailable

FEWEST_FILES = 64
_FILES_OF_OUR_OWN = 40
_FILES_OF_AN_EXECUTION = 16
_ULIMIT = {"AS": "-v", "CPU": "-t", "FSIZE": "-f", "NPROC": "-u", "NOFILE": "-n"}


def require(needed: Mapping[str, int | None]) -> None:
    """Raise SandboxUnavailable if a limit of the host would make a correct program fail."""
    for name, option in _ULIMIT.items():
        most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        least = needed.get(name)
        if least is not None and most != resource.RLIM_INFINITY and most < least:
            raise SandboxUnavailable(
                f"the host limits a process to {most} where a program may need {least} (RLIMIT_{name}); "
                f"raise it (ulimit {option}) or ask for less"
            )


def concurrency(wanted: int) -> int:
    """The number of executions, limited by the host's limit on open files."""
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES_OF_OUR_OWN
    return max(1, min(wanted, room // _FILES_OF_AN_EXECUTION))
