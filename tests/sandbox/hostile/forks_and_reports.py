# expect: exception, wrong answer
# ruff: noqa
import os
import sys


def add(a, b):
    if os.fork() == 0:
        sys.stdout.write("passed")
        os._exit(0)
    os.wait()
    return 0
