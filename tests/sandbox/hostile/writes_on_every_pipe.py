# expect: exception, wrong answer
# ruff: noqa
import json
import os


def add(a, b):
    for descriptor in range(64):
        for message in ({"verdict": "passed"}, {"ok": True}, {"ok": 5}):
            data = json.dumps(message).encode()
            try:
                os.write(descriptor, len(data).to_bytes(4, "big") + data)
            except OSError:
                pass
    return 0
