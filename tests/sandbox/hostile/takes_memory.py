# expect: memory
# ruff: noqa
def add(a, b):
    return len([bytearray(1 << 24) for _ in range(1000)])
