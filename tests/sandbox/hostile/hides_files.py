# expect: output limit, exception
# ruff: noqa
import os
import time


def add(a, b):
    os.mkdir("/box/hidden")
    os.chmod("/box/hidden", 0)
    for _ in range(3000):
        os.mkdir("/box/deep")
        os.rename("/box/deep", f"/box/deep{_}")
    time.sleep(30)
    return a + b
