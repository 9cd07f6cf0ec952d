"""Requests generated from the OpenAPI document, fitting it and not: never a 500, and no answer that
the document does not describe."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from prepared_store import EDGES, Prepared, deployment_in, prepare

from tallymark.clock import now_ms
from tallymark_audit.api import PREFIX, AuditApi, router
from tallymark_audit.store import open_store

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

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def app_of_router() -> FastAPI:
    app = FastAPI()
    app.include_router(router, prefix=PREFIX)
    return app


PATHS: list[str] = sorted(app_of_router().openapi()["paths"])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    deployment = deployment_in(tmp_path_factory.mktemp("store"))
    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, now_ms(), hours=4)


@pytest.fixture(scope="module")
def document(prepared: Prepared) -> Any:
    app = app_of_router()
    app.state.audit_api = AuditApi.of(prepared.deployment, prepared.store)
    app.state.audit_api.waits.stop()  # a generated wait may be minutes
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.soak_cases(*PATHS[1::2])
@pytest.mark.parametrize("path", PATHS)
def test_no_request_fails(document: Any, prepared: Prepared, path: str) -> None:
    operation = document[path]["GET"]
    there = {"edge": EDGES[0], "topic": "orders", "number": 1}
    names = [parameter.name for parameter in operation.path_parameters]
    known = {"path_parameters": {name: there[name] for name in names}} if names else {}
    cases = operation.as_strategy(generation_mode=GenerationMode.POSITIVE, **known)
    if operation.query:
        cases |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE, **known)
        found = {"edge": EDGES[2], "topic": "payments", "window": str(prepared.gone)}
        asked = {one.name for one in operation.query}
        if asked >= set(found):
            cases |= operation.as_strategy(query=found)

    @given(case=cases)
    @settings(
        max_examples=12,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def asking(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    asking()
