# expect: output limit, exception
# ruff: noqa
import time


def add(a, b):
    for number in range(8):
        with open(f"/box/{number}", "wb") as file:
            file.write(bytes(1 << 24))
    time.sleep(30)
    return a + b
