# expect: timeout
# ruff: noqa
import signal

for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass


def add(a, b):
    while True:
        pass
