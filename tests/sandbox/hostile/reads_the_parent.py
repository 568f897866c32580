# expect: exception
# ruff: noqa
import glob


def add(a, b):
    found = [path for path in glob.glob("/proc/[0-9]*/cmdline") if b"tests" in open(path, "rb").read()]
    raise LookupError(f"sees {found}")
