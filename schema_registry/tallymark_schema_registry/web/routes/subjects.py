"""/subjects: register, look up, list."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallymark_schema_registry.service import Registry
from tallymark_schema_registry.web.requests import SchemaRequest, page, subject_of
from tallymark_schema_registry.web.responses import as_json, raw, version_body
from tallymark_schema_registry.web.worker_threads import WorkerThreads


def router(registry: Registry, workers: WorkerThreads) -> APIRouter:
    """Routes are plain functions where they only read: those run in threads of their own."""
    routes = APIRouter()

    @routes.post("/subjects/{subject}/versions")
    async def register(request: Request) -> Response:
        subject = subject_of(request)
        sent = await SchemaRequest.read(request, subject)
        schema_id = await workers.run(request, registry.register, subject, sent.text)
        return as_json({"id": schema_id})

    @routes.post("/subjects/{subject}")
    async def look_up(request: Request) -> Response:
        subject = subject_of(request)
        sent = await SchemaRequest.read(request, subject)
        found = await workers.run(request, registry.lookup, subject, sent.text)
        return as_json(version_body(found))

    @routes.get("/subjects")
    def subjects(request: Request) -> Response:
        prefix = request.query_params.get("subjectPrefix", "")
        return as_json(page(request, registry.subjects(prefix)))

    @routes.get("/subjects/{subject}/versions")
    def versions(request: Request) -> Response:
        return as_json(page(request, registry.versions(subject_of(request))))

    @routes.get("/subjects/{subject}/versions/{version}")
    def version(request: Request, version: str) -> Response:
        return as_json(version_body(registry.version(subject_of(request), version)))

    @routes.get("/subjects/{subject}/versions/{version}/schema")
    def schema(request: Request, version: str) -> Response:
        return raw(registry.version(subject_of(request), version).text)

    return routes
