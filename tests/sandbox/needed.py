"""What a test says that needs the sandbox: where there is none it is skipped, with the reason and the remedy.

A whole test asks for the fixture `sandbox` (tests/conftest.py), one that needs it in some cases for `some_sandbox`,
and one that cannot know in advance does its work in `skipping_without`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reground.core.errors import SandboxUnavailable
from reground.core.programs import Sandbox
from reground.sandbox import find_sandbox


@contextmanager
def skipping_without() -> Iterator[None]:
    """Skip the test if something inside finds no isolation."""
    try:
        yield
    except SandboxUnavailable as reason:
        pytest.skip(str(reason))


def some_sandbox(*, packages: bool = False) -> Sandbox:
    """A real sandbox; skips the test where there is none."""
    with skipping_without():
        return find_sandbox(packages=packages)
