# expect: exception
# ruff: noqa
# tests: assert add(lambda x: x, 5) == 5
def add(function, b):
    return function.__globals__["__builtins__"]["open"]
