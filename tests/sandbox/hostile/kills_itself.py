# expect: exception, memory
# ruff: noqa
import os
import signal


def add(a, b):
    os.kill(os.getpid(), signal.SIGKILL)
