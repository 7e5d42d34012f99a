"""The service behaves as its OpenAPI description says, for generated requests."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def try_out(operation: Any, mode: GenerationMode, data: Any) -> None:
    data.draw(operation.as_strategy(generation_mode=mode)).call_and_validate(checks=CHECKS)


def test_the_description_holds(address: str) -> None:
    description = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [operation.ok() for operation in description.get_all_operations()]
    assert {operation.path for operation in operations} >= {
        "/v1/predict",
        "/v1/labels/{label}/neighbors",
        "/readyz",
    }
    for operation in operations:
        try_out(operation, GenerationMode.POSITIVE)
        if len(operation.query) or len(
            operation.body
        ):  # any text is a path, so those cannot be wrong
            try_out(operation, GenerationMode.NEGATIVE)
