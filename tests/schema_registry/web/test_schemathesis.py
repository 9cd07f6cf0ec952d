"""Requests generated from the OpenAPI document, fitting it and not: never a 500, and no answer that
the document does not describe."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from rest_api import RECORD, Kind, operations

from tallymark_schema_registry.catalog.content import Content, guid_of
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.app import api_document
from tallymark_schema_registry.web.responses import Profile
from tallymark_schema_registry.web.routes import server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.core import NOT_SET
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

SCHEMA = {"schema": RECORD}
BODIES = {
    "POST /subjects/{subject}/versions": SCHEMA,
    "POST /subjects/{subject}": SCHEMA,
    "POST /compatibility/subjects/{subject}/versions": SCHEMA,
    "POST /compatibility/subjects/{subject}/versions/{version}": SCHEMA,
    "PUT /config/{subject}": {"compatibility": "FULL", "alias": "other", "normalize": True},
    "PUT /mode/{subject}": {"mode": "READONLY"},
}
"""What is accepted; generated bodies seldom are."""
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


@pytest.fixture
def there(served: RegistryServer) -> Iterator[dict[str, str]]:
    """Parameters of paths that name something. What a test has set for all is undone."""
    with httpx.Client(base_url=served.url) as http:
        for path, value in (("/mode/fuzzed", "READWRITE"), ("/config/fuzzed", "NONE")):
            body = {"mode": value} if path.startswith("/mode") else {"compatibility": value}
            assert http.put(path, json=body).status_code == 200
        answer = http.post("/subjects/fuzzed/versions", json=SCHEMA)
        assert answer.status_code == 200, answer.text
        schema_id = str(answer.json()["id"])
        version = str(http.get("/subjects/fuzzed/versions").json()[-1])
        yield {
            "subject": "fuzzed",
            "version": version,
            "schema_id": schema_id,
            "guid": guid_of(Content(RECORD).md5()),
            "context": ".fuzzed",
            "path": "resources/-/fuzzed",
        }
        assert http.put("/mode", json={"mode": "READWRITE"}).status_code == 200
        for path in ("/mode", "/config", "/config/fuzzed", "/mode/fuzzed"):
            http.delete(path)


@pytest.mark.parametrize(
    "kind",
    [Kind("sqlite", Profile.SEVEN), Kind("postgresql", Profile.EIGHT)],
    indirect=True,
    scope="session",
    ids=["sqlite-7", "postgresql-8"],
)
@pytest.mark.parametrize("name", NAMES)
def test_no_request_fails(
    served: RegistryServer,
    schema: Any,
    there: dict[str, str],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_WAIT_S", 0.1)
    method, path = name.split(" ", 1)
    operation = schema[path][method]
    fitting = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    cases = fitting | operation.as_strategy(path_parameters=there, body=BODIES.get(name, NOT_SET))
    if operation.query or operation.path_parameters or operation.body:
        cases |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        cases |= operation.as_strategy(
            generation_mode=GenerationMode.NEGATIVE, path_parameters=there
        )

    @given(case=cases)
    @settings(
        max_examples=8,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def asked(case: Any) -> None:
        case.call_and_validate(base_url=served.url, checks=CHECKS)

    asked()
