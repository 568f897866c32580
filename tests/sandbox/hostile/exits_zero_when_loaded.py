# expect: exception
# ruff: noqa
import sys

sys.exit(0)
