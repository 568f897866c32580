# expect: timeout
# ruff: noqa
# run: stdin
import time

time.sleep(60)
