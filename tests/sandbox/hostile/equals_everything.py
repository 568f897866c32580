# expect: wrong answer
# ruff: noqa
class Anything:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 5


def add(a, b):
    return Anything()
