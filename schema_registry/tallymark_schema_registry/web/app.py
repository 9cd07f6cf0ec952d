"""The ASGI application: routes, errors as JSON, the middleware around them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from tallymark_schema_registry import errors
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web.asgi import App
from tallymark_schema_registry.web.call import Served, served_by
from tallymark_schema_registry.web.middleware import Middleware, error_body
from tallymark_schema_registry.web.negotiate import V1
from tallymark_schema_registry.web.openapi import document
from tallymark_schema_registry.web.responses import Profile
from tallymark_schema_registry.web.routes import (
    config,
    deleting,
    ids,
    registering,
    server,
    subjects,
)

RETRY_AFTER: Final = "2"
"""Seconds, with every 503."""
_ROOMS: Final = (registering, subjects, ids, deleting, config, server)

_log = logging.getLogger(__name__)


def create_app(
    registry: Registry,
    cluster_id: str = "",
    profile: Profile = Profile.SEVEN,
    metrics_page: Callable[[], bytes] = bytes,
) -> App:
    """The registry as an ASGI application. It starts ``registry`` when it is started, and closes it
    when it is shut down, on the server's event loop.

    ``cluster_id`` is what ``/v1/metadata/id`` says of the Kafka cluster; ``metrics_page`` makes
    what ``/metrics`` answers.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await registry.start()
        try:
            yield
        finally:
            await registry.close()

    return Middleware(_routes(Served(registry, profile, cluster_id, metrics_page), lifespan))


def api_document() -> dict[str, Any]:
    """The OpenAPI document, without a running registry."""
    return _routes(None, None).openapi()


def _routes(served: Served | None, lifespan: object) -> FastAPI:
    app = FastAPI(
        title="Tallymark schema registry",
        lifespan=lifespan,  # type: ignore[arg-type]
        redirect_slashes=False,
        # FastAPI's own pages load scripts from elsewhere; routes.server has ours.
        openapi_url=None,
    )
    app.state.served = served
    for room in _ROOMS:
        app.router.routes.extend(room.routes.routes)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    app.add_exception_handler(RegistryError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_parameter)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_bug)
    return app


def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RegistryError)
    code = served_by(request).profile.code(error)
    status, body = error_body(RegistryError(error.status, code, error.message))
    headers = {"Retry-After": RETRY_AFTER} if status == 503 else None
    return Response(body, status, headers, media_type=V1)


def _on_parameter(request: Request, _error: Exception) -> Response:
    """A number in a path or query that is none names nothing."""
    return _on_error(request, errors.not_found())


def _on_http(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in the ecosystem's words: clients parse the body."""
    assert isinstance(error, HTTPException)
    answer = errors.http_error(error.status_code, HTTPStatus(error.status_code).phrase)
    response = _on_error(request, answer)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_methods_of(request))
    return response


def _methods_of(request: Request) -> list[str]:
    """What the path can be asked with."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods
    return sorted(found | {"HEAD"} if "GET" in found else found)


def _on_bug(request: Request, _error: Exception) -> Response:
    # The server logs the traceback; the client still gets a body it can parse.
    return _on_error(request, errors.http_error(500, "Internal Server Error"))
