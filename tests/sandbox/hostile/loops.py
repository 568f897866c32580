# expect: timeout
# ruff: noqa
def add(a, b):
    while True:
        pass
