"""/schemas: by id."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tallymark_schema_registry.service import Registry
from tallymark_schema_registry.web.middleware import Bodies
from tallymark_schema_registry.web.negotiate import V1
from tallymark_schema_registry.web.requests import integer, page
from tallymark_schema_registry.web.responses import as_json, json_bytes, raw


def router(registry: Registry, bodies: Bodies) -> APIRouter:
    """``bodies`` takes the answers that the middleware gives from then on. A miss is never kept:
    another node may register the id in the next moment."""
    routes = APIRouter()

    @routes.get("/schemas/types")
    def types() -> Response:
        return as_json(["AVRO"])

    @routes.get("/schemas/ids/{schema_id}")
    def by_id(schema_id: str) -> Response:
        number = integer(schema_id)
        body = json_bytes({"schema": registry.text(number)})
        bodies.put(number, body, body)
        return Response(body, media_type=V1)

    @routes.get("/schemas/ids/{schema_id}/schema")
    def schema(schema_id: str) -> Response:
        return raw(registry.text(integer(schema_id)))

    @routes.get("/schemas/ids/{schema_id}/versions")
    def versions(request: Request, schema_id: str) -> Response:
        uses = registry.uses(integer(schema_id))
        rows = [{"subject": subject, "version": version} for subject, version in uses]
        return as_json(page(request, rows))

    @routes.get("/schemas/ids/{schema_id}/subjects")
    def subjects(request: Request, schema_id: str) -> Response:
        uses = registry.uses(integer(schema_id))
        return as_json(page(request, sorted({subject for subject, _ in uses})))

    return routes
