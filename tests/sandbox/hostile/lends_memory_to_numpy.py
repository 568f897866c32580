# expect: exception, wrong answer
# ruff: noqa
# tests: import numpy as np
# tests: assert np.allclose(add(2, 3), 5, atol=1e-3)
class Array:
    __array_interface__ = {"shape": (1,), "typestr": "<f8", "data": (4096, False), "version": 3}

    def __array__(self, *args, **named):
        return self


def add(a, b):
    return Array()
