"""Settings of all tests."""

import pytest
from hypothesis import HealthCheck, settings

from reground.core.programs import Sandbox
from tests.adversarial import THOROUGH
from tests.sandbox.needed import some_sandbox

# A property is about what is computed; how long that takes on a busy machine says nothing about it.
# The same examples on every run: a check of a change judges the change. REGROUND_THOROUGH=1 looks for new ones.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not THOROUGH
)
settings.load_profile("patient")


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    """A real sandbox; skips the test where there is none."""
    return some_sandbox()
