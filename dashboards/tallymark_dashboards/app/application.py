"""The application: routes, static files, headers, errors put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.api import PREFIX, AuditApi
from tallymark_audit.api import router as audit_router
from tallymark_audit.store import Store
from tallymark_dashboards.access.form_tokens import FormTokens
from tallymark_dashboards.actions import decide, repair
from tallymark_dashboards.actions.desk import RepairDesk
from tallymark_dashboards.actions.forms import Actions
from tallymark_dashboards.app import (
    cluster_tables,
    group_tables,
    health,
    message_tables,
    page_routes,
    registry_tables,
    repair_tables,
    static_routes,
    topic_tables,
    transaction_tables,
)
from tallymark_dashboards.app.error_pages import handle_errors
from tallymark_dashboards.app.middleware import Headers, PathPrefix
from tallymark_dashboards.app.own_metrics import Measured, OwnMetrics
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.live.hub import Hub
from tallymark_dashboards.live.renderings import Renderings
from tallymark_dashboards.snapshots.holder import Snapshots

COMPRESSED_FROM: Final = 1_000
"""Bytes of an answer from which on it is compressed."""

TABLES: Final = (
    cluster_tables, group_tables, topic_tables, registry_tables, message_tables, repair_tables,
    transaction_tables,
)  # fmt: skip
"""The tables that are not in the audit's store."""


def create_app(
    deployment: Deployment,
    store: Store,
    snapshots: Snapshots | None = None,
    desk: RepairDesk | None = None,
    settings: str = "",
) -> FastAPI:
    """The dashboards of one deployment over its audit store; ``snapshots`` is what is known of its
    clusters, ``desk`` runs the repairs that people start, ``settings`` is the path of the settings
    file, for commands."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.hub.stop()
        app.state.renderings.close()
        app.state.audit_api.waits.stop()
        app.state.context.peeks.close()
        await asyncio.to_thread(app.state.actions.desk.close)

    app = FastAPI(
        title="Tallymark dashboards",
        lifespan=lifespan,
        # Swagger's page loads its scripts from another site; tools can read /openapi.json.
        docs_url=None,
        openapi_url=None,  # health has it, with the prefix that the client sees
        redoc_url=None,
        # They would name the host of the request, without the prefix.
        redirect_slashes=False,
    )
    app.state.context = Context.of(deployment, store, snapshots, settings)
    renderings = app.state.renderings = Renderings(app.state.context)
    app.state.hub = Hub(renderings.marker, renderings.fragment)
    app.state.actions = Actions(desk or RepairDesk(deployment, store), FormTokens())
    app.state.audit_api = AuditApi.of(
        deployment, store, settings, app.state.context.snapshots.log_starts
    )
    app.include_router(static_routes.router)
    app.include_router(health.router)
    app.include_router(page_routes.router())
    app.include_router(decide.router())
    app.include_router(repair.router())
    # Behind the pages: FastAPI prepares the routes of a router when a request comes to it first,
    # and those of the audit, with all their parameters, would hold up the first page.
    app.include_router(audit_router, prefix=PREFIX)
    for tables in TABLES:
        app.include_router(tables.router)
    app.add_middleware(Measured, metrics=_own_metrics(app.state.context, app.state.hub))
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=5)
    app.add_middleware(PathPrefix, prefix=deployment.dashboards.path_prefix)
    app.add_middleware(Headers)
    handle_errors(app)
    return app


def _own_metrics(context: Context, hub: Hub) -> OwnMetrics:
    def read_at() -> dict[str, int]:
        return {one.name: one.brokers.at for one in context.snapshots.clusters}

    return OwnMetrics(context.metrics, lambda: len(hub), read_at, now_ms)
