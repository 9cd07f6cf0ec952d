"""What describes the registry itself: contexts, changes, health, metadata, and its own API."""

from __future__ import annotations

from importlib.metadata import version as distribution_version
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import BeforeValidator

from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.web.answers import as_json, json_bytes, readable
from tallymark_schema_registry.web.api_page import page_of
from tallymark_schema_registry.web.call import Caller, served_by
from tallymark_schema_registry.web.described import described
from tallymark_schema_registry.web.metrics.page import CONTENT_TYPE
from tallymark_schema_registry.web.params import Paging, Since, integer
from tallymark_schema_registry.web.paths import context_named

MAX_CHANGES: Final = 1_000
"""In one answer of ``GET /changes``."""
MAX_WAIT_S: Final = 30.0
MAX_WAITING: Final = 128
"""Requests that wait for a change at the same time; others get an answer at once."""
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
}
_Number = Annotated[int, BeforeValidator(integer)]

routes = APIRouter(tags=["the registry"])


@routes.get("/contexts", response_model=list[str], **described(Right.READ, 404))
async def contexts(
    call: Caller,
    page: Paging,
    prefix: Annotated[str, Query(alias="contextPrefix")] = "",
) -> Response:
    """The contexts that there are; `.` is the default one."""
    found = [name for name in await call.registry.contexts() if name.startswith(prefix)]
    return readable(call.request, page.of(found))


@routes.delete(
    "/contexts/{context}",
    status_code=204,
    response_model=None,
    **described(Right.ADMIN, 42208, 42211),
)
async def delete_context(call: Caller, context: Annotated[str, Path()]) -> Response:
    """An empty context is not listed any more."""
    await call.registry.delete_context(context_named(context), by=call.by)
    return Response(status_code=204)


@routes.get("/changes", response_model=list[dict[str, Any]], **described(Right.READ, 404))
async def changes(
    call: Caller,
    since: Since = 0,
    limit: Annotated[_Number, Query(description="At most so many, and at most 1,000")] = 0,
    wait: Annotated[
        _Number, Query(description="Seconds to wait for the first one, at most 30")
    ] = 0,
) -> Response:
    """What was changed after change number `since`, in order. An empty answer: nothing yet."""
    most = min(limit, MAX_CHANGES) if limit > 0 else MAX_CHANGES
    served = served_by(call.request)
    wait_s = min(max(0, wait), MAX_WAIT_S) if served.waiting < MAX_WAITING else 0.0
    served.waiting += 1
    try:
        return as_json(await call.registry.changes(max(0, since), most, wait_s))
    finally:
        served.waiting -= 1


@routes.get("/", response_model=dict[str, Any], **described(None))
async def root(call: Caller) -> Response:
    """It is there."""
    return as_json({})


@routes.get("/healthz", response_model=dict[str, str], **described(None, 50001))
async def healthz(call: Caller) -> Response:
    """It is there, and so is its store."""
    await call.registry.ping()
    return as_json({"status": "ok"})


@routes.get("/_health", response_model=dict[str, Any], **described(None, 50001))
async def health(call: Caller) -> Response:
    """As /healthz, in the words of another registry."""
    await call.registry.ping()
    return as_json({"healthy": True})


@routes.get("/master_available", response_model=dict[str, bool], **described(None))
async def master_available(call: Caller) -> Response:
    """Whether there is a server that writes: every process of this registry does."""
    return as_json({"master_available": True})


@routes.get("/associations/{path:path}", response_model=list[Any], **described(None))
async def associations(call: Caller, path: str) -> Response:
    """None. Serializers ask for them before their first message, to learn a topic's subjects; an
    empty list sends them to the topic's name."""
    return as_json([])


@routes.get("/v1/metadata/id", response_model=dict[str, Any], **described(None))
async def metadata_id(call: Caller) -> Response:
    """Of which cluster this is the registry."""
    cluster_id = served_by(call.request).cluster_id
    clusters = {"kafka-cluster": cluster_id, "schema-registry-cluster": "schema-registry"}
    return as_json({"id": "", "scope": {"path": [], "clusters": clusters}})


@routes.get("/v1/metadata/version", response_model=dict[str, str], **described(None))
async def version(call: Caller) -> Response:
    """Which version of the software this is."""
    # "server": our client asks for a dry run only where it is known; others would register.
    of_us = {"version": distribution_version("tallymark"), "commitId": ""}
    return as_json({**of_us, "server": "tallymark"})


@routes.get("/v1/metadata/deployment", response_model=dict[str, Any], **described(None))
@routes.get("/deployment", response_model=dict[str, Any], **described(None))
async def deployment(call: Caller) -> Response:
    """How it is deployed: nothing is said."""
    return as_json({"attributes": []})


@routes.get("/metrics", include_in_schema=False)
async def metrics(call: Caller) -> Response:
    """What monitoring looks at."""
    return Response(served_by(call.request).metrics_page(), media_type=CONTENT_TYPE)


@routes.get("/openapi.json", include_in_schema=False)
async def openapi(call: Caller) -> Response:
    """The description of all operations, for programs."""
    return Response(json_bytes(call.request.app.openapi()), media_type="application/json")


@routes.get("/docs", include_in_schema=False)
async def docs(call: Caller) -> Response:
    """The same for people: a page that loads nothing."""
    page = page_of(call.request.app.openapi(), call.profile)
    return Response(page, headers=_PAGE_HEADERS, media_type="text/html")
