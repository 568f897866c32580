# expect: exception
# ruff: noqa
import os
import sys


def add(a, b):
    for path in ("/reground/harness/wire.py", "/job.json", sys.executable, "/new", os.__file__, "/dev/new"):
        try:
            with open(path, "a") as file:
                file.write("x")
            return a + b
        except OSError:
            continue
    raise PermissionError("nothing can be written")
