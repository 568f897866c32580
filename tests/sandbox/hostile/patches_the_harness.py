# expect: exception, wrong answer
# ruff: noqa
import sys

for name, module in list(sys.modules.items()):
    if name.startswith("harness"):
        for attribute in dir(module):
            if not attribute.startswith("__"):
                setattr(module, attribute, lambda *args, **named: ("passed", ""))


def add(a, b):
    return 0
