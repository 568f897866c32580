"""What tests that interrupt a process need."""

from __future__ import annotations

import signal


def heed_ctrl_c() -> None:
    """For `preexec_fn`: a process started from a script's background ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
