# expect: exception
# ruff: noqa
import os


def add(a, b):
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b"\xff\xff\xff\xff garbage")
        except OSError:
            pass
    return 5
