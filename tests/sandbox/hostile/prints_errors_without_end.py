# expect: output limit
# ruff: noqa
# run: stdin
import sys

while True:
    sys.stderr.write("x" * 1000)
