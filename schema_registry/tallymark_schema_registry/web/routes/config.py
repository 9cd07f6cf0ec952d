"""/config, and routes that describe the registry: /, /mode, /contexts, /healthz, metadata."""

from __future__ import annotations

from importlib.metadata import version as distribution_version

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from tallymark_schema_registry import errors
from tallymark_schema_registry.levels import Level
from tallymark_schema_registry.service import Registry
from tallymark_schema_registry.web.requests import body_of, flag, subject_of
from tallymark_schema_registry.web.responses import as_json


def router(registry: Registry, cluster_id: str) -> APIRouter:
    routes = APIRouter()
    _add_config(routes, registry)
    _add_state(routes, registry)
    _add_identity(routes, cluster_id)
    return routes


def _add_config(routes: APIRouter, registry: Registry) -> None:
    @routes.get("/config")
    def get_global() -> Response:
        return as_json({"compatibilityLevel": registry.level()})

    @routes.put("/config")
    async def put_global(request: Request) -> Response:
        return await _put_level(registry, request, "")

    @routes.delete("/config")
    def delete_global() -> Response:
        return as_json({"compatibilityLevel": registry.delete_level()})

    @routes.get("/config/{subject}")
    def get_own(request: Request) -> Response:
        level = registry.level(subject_of(request), flag(request, "defaultToGlobal"))
        return as_json({"compatibilityLevel": level})

    @routes.put("/config/{subject}")
    async def put_own(request: Request) -> Response:
        return await _put_level(registry, request, subject_of(request))

    @routes.delete("/config/{subject}")
    def delete_own(request: Request) -> Response:
        return as_json({"compatibilityLevel": registry.delete_level(subject_of(request))})


async def _put_level(registry: Registry, request: Request, subject: str) -> Response:
    body = await body_of(request)
    name = body.get("compatibility")
    # Not str(name): a body without the property would name the level NONE.
    if not isinstance(name, str) or name.upper() not in Level.__members__:
        raise errors.invalid_level()
    level = Level(name.upper())
    await run_in_threadpool(registry.set_level, subject, level)
    return as_json({"compatibility": level})


def _add_state(routes: APIRouter, registry: Registry) -> None:
    @routes.get("/")
    async def root() -> Response:
        return as_json({})

    @routes.get("/healthz")
    def healthz() -> Response:
        registry.ping()
        return as_json({"status": "ok"})

    @routes.get("/mode")
    async def mode() -> Response:
        return as_json({"mode": "READWRITE"})

    @routes.get("/mode/{subject}")
    async def subject_mode(request: Request) -> Response:
        if not flag(request, "defaultToGlobal"):
            raise errors.no_subject_mode(subject_of(request))
        return as_json({"mode": "READWRITE"})


def _add_identity(routes: APIRouter, cluster_id: str) -> None:
    @routes.get("/contexts")
    async def contexts() -> Response:
        return as_json(["."])

    @routes.get("/associations/{path:path}")
    async def associations() -> Response:
        # Serializers ask this before their first message, to learn a topic's subjects; an empty
        # list sends them to the topic's name.
        return as_json([])

    @routes.get("/v1/metadata/id")
    async def metadata_id() -> Response:
        clusters = {"kafka-cluster": cluster_id, "schema-registry-cluster": "schema-registry"}
        return as_json({"id": "", "scope": {"path": [], "clusters": clusters}})

    @routes.get("/v1/metadata/version")
    async def version() -> Response:
        # "server": our client asks for a dry run only where it is known; others would register.
        of_us = {"version": distribution_version("tallymark"), "commitId": ""}
        return as_json({**of_us, "server": "tallymark"})
