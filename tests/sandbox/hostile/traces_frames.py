# expect: wrong answer
# ruff: noqa
import sys


def tracer(frame, event, argument):
    for name in ("verdict", "detail", "expected", "nonce"):
        frame.f_locals[name] = "passed"
    return tracer


sys.settrace(tracer)


def add(a, b):
    frame = sys._getframe()
    while frame is not None:
        frame.f_globals.setdefault("verdict", "passed")
        frame = frame.f_back
    return 0
