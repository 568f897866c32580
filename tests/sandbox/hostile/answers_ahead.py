# expect: wrong answer, exception
# ruff: noqa
# Guesses that its answers are taken in order and sends the ones it hopes for.
import json
import os


def send(message):
    data = json.dumps(message).encode()
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, len(data).to_bytes(4, "big") + data)
        except OSError:
            pass


for _ in range(100):
    send({"ok": {"t": "dict", "v": [["add", {"t": "ref", "v": 0}]]}})


def add(a, b):
    return 0
