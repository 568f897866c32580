# expect: exception, timeout, memory
# ruff: noqa
import os


def add(a, b):
    while True:
        try:
            os.fork()
        except OSError:
            pass
