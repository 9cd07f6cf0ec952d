"""The ASGI application: routes, errors as JSON, the middleware around them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from tallymark_schema_registry import errors
from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.service import Registry
from tallymark_schema_registry.web.asgi import App
from tallymark_schema_registry.web.middleware import Bodies, Middleware, error_body
from tallymark_schema_registry.web.negotiate import V1
from tallymark_schema_registry.web.routes import compatibility, config, ids, subjects
from tallymark_schema_registry.web.worker_threads import WorkerThreads

MAX_BODIES: Final = 32 << 20
"""Bytes of answers by id that are kept ready."""

_log = logging.getLogger(__name__)


def create_app(registry: Registry, cluster_id: str = "") -> App:
    """The registry as an ASGI application. It closes ``registry`` when it is shut down.

    ``cluster_id`` is what ``/v1/metadata/id`` says of the Kafka cluster.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        registry.close()

    bodies: Bodies = BoundedCache(MAX_BODIES, largest=MAX_BODIES // 8)
    workers = WorkerThreads()
    app = FastAPI(
        title="Tallymark schema registry",
        lifespan=lifespan,
        redirect_slashes=False,
        # FastAPI's own pages load scripts from elsewhere; docs/schema-registry.md says it all.
        openapi_url=None,
    )
    app.include_router(subjects.router(registry, workers))
    app.include_router(ids.router(registry, bodies))
    app.include_router(compatibility.router(registry, workers))
    app.include_router(config.router(registry, cluster_id))
    app.add_exception_handler(RegistryError, _on_error)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(SQLAlchemyError, _on_store)
    app.add_exception_handler(Exception, _on_bug)
    return Middleware(app, bodies)


def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RegistryError)
    status, body = error_body(error)
    headers = {"Retry-After": "2"} if status == 503 else None
    return Response(body, status, headers, media_type=V1)


def _on_http(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in the ecosystem's words: clients parse the body."""
    assert isinstance(error, HTTPException)
    answer = errors.http_error(error.status_code, HTTPStatus(error.status_code).phrase)
    return _on_error(request, answer)


def _on_store(request: Request, error: Exception) -> Response:
    _log.error("%s %s: the store failed: %s", request.method, request.url.path, error)
    return _on_error(request, errors.store_failed())


def _on_bug(request: Request, _error: Exception) -> Response:
    # The server logs the traceback; the client still gets a body it can parse.
    return _on_error(request, errors.http_error(500, "Internal Server Error"))
