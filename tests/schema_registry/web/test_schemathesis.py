"""Requests generated from the OpenAPI document, fitting it and not: never a 500, and no answer that
the document does not describe."""

from __future__ import annotations

import warnings
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from rest_api import Kind, operations

from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.app import api_document
from tallymark_schema_registry.web.responses import Profile

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

DOCUMENT = api_document()
NAMES = sorted(operations(DOCUMENT))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.parametrize(
    "kind",
    [Kind("sqlite", Profile.SEVEN), Kind("postgresql", Profile.EIGHT)],
    indirect=True,
    scope="session",
    ids=["sqlite-7", "postgresql-8"],
)
@pytest.mark.parametrize("name", NAMES)
def test_no_request_fails(served: RegistryServer, schema: Any, name: str) -> None:
    method, path = name.split(" ", 1)
    operation = schema[path][method]
    cases = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if operation.query or operation.path_parameters or operation.body:
        cases |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @given(case=cases)
    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def asked(case: Any) -> None:
        case.call_and_validate(base_url=served.url, checks=CHECKS)

    asked()
    with httpx.Client(base_url=served.url) as http:
        assert http.put("/mode", json={"mode": "READWRITE"}).status_code == 200
        http.delete("/mode")
        http.delete("/config")
