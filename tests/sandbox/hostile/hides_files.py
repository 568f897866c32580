# expect: output limit
# ruff: noqa
import os
import time


def add(a, b):
    os.mkdir("/work/hidden")
    os.chmod("/work/hidden", 0)
    for _ in range(3000):
        os.mkdir("/work/deep")
        os.rename("/work/deep", f"/work/deep{_}")
    time.sleep(30)
    return a + b
