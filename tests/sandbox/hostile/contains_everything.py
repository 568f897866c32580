# expect: wrong answer
# ruff: noqa
# tests: assert 5 in add(2, 3)
class Everything:
    def __contains__(self, item):
        return True

    def __iter__(self):
        return iter([1])


def add(a, b):
    return Everything()
