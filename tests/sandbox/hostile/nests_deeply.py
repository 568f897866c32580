# expect: wrong answer, exception
# ruff: noqa
import sys

sys.setrecursionlimit(10**6)


def add(a, b):
    value = []
    for _ in range(20000):
        value = [value]
    return value
