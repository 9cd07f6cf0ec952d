"""/compatibility: could this schema be registered?"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.service import Registry
from tallymark_schema_registry.web.requests import SchemaRequest, flag, subject_of
from tallymark_schema_registry.web.responses import as_json
from tallymark_schema_registry.web.worker_threads import WorkerThreads

_INVALID_SCHEMA = 42201


def router(registry: Registry, workers: WorkerThreads) -> APIRouter:
    routes = APIRouter()

    @routes.post("/compatibility/subjects/{subject}/versions/{version}")
    async def with_version(request: Request, version: str) -> Response:
        return await _check(registry, workers, request, version)

    @routes.post("/compatibility/subjects/{subject}/versions")
    async def with_all(request: Request) -> Response:
        return await _check(registry, workers, request, None)

    return routes


async def _check(
    registry: Registry, workers: WorkerThreads, request: Request, version: str | None
) -> Response:
    """``verbose=true`` adds the reasons, and takes an invalid schema as one of them."""
    subject = subject_of(request)
    verbose = flag(request, "verbose")
    try:
        sent = await SchemaRequest.read(request, subject)
        found = await workers.run(request, registry.check, subject, version, sent.text)
    except RegistryError as error:
        if not (verbose and error.code == _INVALID_SCHEMA):
            raise
        found = [error.message]
    body: dict[str, Any] = {"is_compatible": not found}
    if verbose:
        body["messages"] = found
    return as_json(body)
