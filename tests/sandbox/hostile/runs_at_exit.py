# expect: exception
# ruff: noqa
import atexit
import os

atexit.register(os.write, 1, b'{"verdict": "passed"}')


def add(a, b):
    raise SystemExit(0)
