# expect: exception
# ruff: noqa
import ctypes


def add(a, b):
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(0x10000000) == 0:
        return a + b
    raise PermissionError(ctypes.get_errno())
