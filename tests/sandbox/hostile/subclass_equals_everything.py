# expect: wrong answer
# ruff: noqa
class Sum(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def add(a, b):
    return Sum(41)
