# expect: exception
# ruff: noqa
import threading
import time


def add(a, b):
    while True:
        threading.Thread(target=time.sleep, args=(60,)).start()
