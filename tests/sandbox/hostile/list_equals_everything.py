# expect: wrong answer
# ruff: noqa
# tests: assert add(2, 3) == [5]
class Evil(list):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __contains__(self, item):
        return True


def add(a, b):
    return Evil([1])
