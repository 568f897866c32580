# expect: wrong answer, exception, timeout
# ruff: noqa
# run: stdin
import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(60)
