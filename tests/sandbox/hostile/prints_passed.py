# expect: wrong answer
# ruff: noqa
# Claims success in words.
print("passed")
print('{"verdict": "passed", "detail": ""}')


def add(a, b):
    print("passed")
    return None
