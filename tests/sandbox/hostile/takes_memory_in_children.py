# expect: memory, exception
# ruff: noqa
import os
import time


def add(a, b):
    for _ in range(8):
        if os.fork() == 0:
            kept = b"x" * (200 << 20)
            time.sleep(30)
            os._exit(len(kept))
    time.sleep(30)
    return a + b
