# expect: exception
# ruff: noqa
# Would pass if anything of the host were to be seen.
import os


def add(a, b):
    secrets = [name for name in os.environ if "KEY" in name or "TOKEN" in name or "REGROUND" in name]
    places = [path for path in ("/etc/passwd", "/root/.ssh", "/var", "/opt", "/sys/class") if os.path.exists(path)]
    if secrets or places or os.listdir("/home"):
        return a + b
    raise LookupError("nothing to be seen")
