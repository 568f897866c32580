# expect: wrong answer, exception
# ruff: noqa
import builtins
import unittest

builtins.AssertionError = Exception
builtins.isinstance = lambda value, kind: True
builtins.abs = lambda value: 0
unittest.TestCase.assertEqual = lambda *args: None
unittest.TestCase.run = lambda *args: None


def add(a, b):
    return 0
