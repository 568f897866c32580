# expect: exception, memory
# ruff: noqa
import os
import signal


def add(a, b):
    for pid in [1, os.getppid(), 0, -1]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return None
