# expect: exception, wrong answer
# ruff: noqa
# tests: assert abs(add(2, 3) - 5) < 1e-6
class Near:
    def __sub__(self, other):
        return self

    __rsub__ = __sub__

    def __abs__(self):
        return self

    def __lt__(self, other):
        return True


def add(a, b):
    return Near()
