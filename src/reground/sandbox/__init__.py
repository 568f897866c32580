"""Isolated execution of generated programs."""

from __future__ import annotations

from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.programs import Sandbox

KINDS = ("bubblewrap", "docker")


def find_sandbox(kind: str = "bubblewrap", *, concurrency: int | None = None, packages: bool = False) -> Sandbox:
    """A sandbox of the given kind, after a test run.

    packages: whether programs may import the installed packages beside the standard library.
    Raises SandboxUnavailable with the reason and the remedy if there is no isolation: nothing ever runs without it.
    Raises ConfigurationError for an unknown kind.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"no sandbox is called {kind!r}; {did_you_mean(kind, KINDS)}")
    from reground.sandbox.bubblewrap import find_bubblewrap
    from reground.sandbox.docker import find_docker
    from reground.sandbox.engine import Engine

    launcher = find_bubblewrap(packages=packages) if kind == "bubblewrap" else find_docker()
    return Engine(launcher, concurrency=concurrency, packages=packages)
