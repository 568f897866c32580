# expect: wrong answer
# ruff: noqa
# run: stdin
import os

os._exit(0)
