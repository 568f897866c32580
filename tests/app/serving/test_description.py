"""The server does what its OpenAPI description says, whatever is sent."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from reground.app.serving.requests import description
from tests.app.serving.served import ANSWER, Slow, served

# A body of the right form may still ask nothing, or of an unknown model, so it may be refused.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    model = Slow(lambda messages, sampling: "{}" if sampling.grammar else ANSWER)
    with served(tmp_path_factory.mktemp("home"), model, methods=["direct"]) as running:
        yield running


BODIES = ("/v1/chat/completions", "/v1/responses", "/v1/check", "/retrieve")


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        *((path, GenerationMode.POSITIVE) for path in ("/v1/models", "/v1/models/{name}", "/healthz", *BODIES)),
        *((path, GenerationMode.NEGATIVE) for path in BODIES),
    ],
)
def test_the_interface_is_as_described(server, path, mode):
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    (operation,) = [each.ok() for each in described.get_all_operations() if each.ok().path == path]

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        case.call_and_validate(checks=CHECKS)

    check()


def test_keys_are_part_of_the_description():
    assert description(with_keys=True)["security"] == [{"key": []}]
    assert "securitySchemes" not in description(with_keys=False)["components"]
