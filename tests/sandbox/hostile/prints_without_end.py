# expect: output limit
# ruff: noqa
def add(a, b):
    while True:
        print("x" * 1000)
