"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# A property is about what is computed; how long that takes on a busy machine says nothing about it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
