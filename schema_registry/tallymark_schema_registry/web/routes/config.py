"""/config and /mode, of subjects, of contexts, and of all."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BeforeValidator

from tallymark_schema_registry import errors
from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT
from tallymark_schema_registry.web.answers import as_json, readable
from tallymark_schema_registry.web.call import Caller
from tallymark_schema_registry.web.described import described
from tallymark_schema_registry.web.documents import Config, ConfigRequest, Mode
from tallymark_schema_registry.web.params import (
    DefaultToGlobal,
    Force,
    OnContext,
    OnSubject,
    is_true,
)
from tallymark_schema_registry.web.requests import body_of

_BODY = (400, 413, 415)
Recursive = Annotated[
    bool, BeforeValidator(is_true), Query(description="Those of all its subjects too")
]

routes = APIRouter(tags=["config and modes"])


@routes.get("/config", response_model=Config, **described(Right.READ))
async def get_config(
    call: Caller, place: OnContext, default_to_global: DefaultToGlobal = False
) -> Response:
    """The config of all subjects that have none of their own."""
    everywhere = default_to_global or place.context == DEFAULT_CONTEXT
    found = await call.registry.config(place, default_to_global=everywhere)
    call.keep_list()
    return readable(call.request, found)


@routes.put(
    "/config",
    response_model=ConfigRequest,
    **described(Right.ADMIN, *_BODY, 42203, 42205, 42209, 42210, body=ConfigRequest),
)
async def put_config(call: Caller, place: OnContext) -> Response:
    """Set what is given; the rest stays as it is."""
    values = await body_of(call.request)
    return as_json(await call.registry.set_config(place, values, by=call.by))


@routes.delete("/config", response_model=Config, **described(Right.ADMIN, 42205))
async def delete_config(call: Caller, place: OnContext) -> Response:
    """Back to the server's default; what was set is answered."""
    return as_json(await call.registry.delete_config(place, by=call.by))


@routes.get("/config/{subject}", response_model=Config, **described(Right.READ, 40408, 42208))
async def get_subject_config(
    call: Caller, subject: OnSubject, default_to_global: DefaultToGlobal = False
) -> Response:
    """What is set for a subject, or is in force for it."""
    found = await call.registry.config(subject, default_to_global=default_to_global)
    call.keep_list()
    return readable(call.request, found)


@routes.put(
    "/config/{subject}",
    response_model=ConfigRequest,
    **described(Right.ADMIN, *_BODY, 42203, 42205, 42208, 42209, 42210, body=ConfigRequest),
)
async def put_subject_config(call: Caller, subject: OnSubject) -> Response:
    """Set what is given; the rest stays as it is. The subject need not be there."""
    values = await body_of(call.request)
    return as_json(await call.registry.set_config(subject, values, by=call.by))


@routes.delete(
    "/config/{subject}",
    response_model=Config,
    **described(Right.ADMIN, 40401, 42205, 42208),
)
async def delete_subject_config(call: Caller, subject: OnSubject) -> Response:
    """Back to what holds for all; what was set is answered."""
    return as_json(await call.registry.delete_config(subject, by=call.by))


@routes.get("/mode", response_model=Mode, **described(Right.READ))
async def get_mode(
    call: Caller, place: OnContext, default_to_global: DefaultToGlobal = False
) -> Response:
    """The mode of all subjects that have none of their own."""
    everywhere = default_to_global or place.context == DEFAULT_CONTEXT
    found = await call.registry.mode(place, default_to_global=everywhere)
    call.keep_list()
    return readable(call.request, {"mode": found})


@routes.put(
    "/mode",
    response_model=Mode,
    **described(Right.ADMIN, *_BODY, 42204, 42205, body=Mode),
)
async def put_mode(call: Caller, place: OnContext, force: Force = False) -> Response:
    """Set the mode. IMPORT is refused where there are subjects, unless forced."""
    mode = await _mode_of(call)
    return as_json({"mode": await call.registry.set_mode(place, mode, force=force, by=call.by)})


@routes.delete("/mode", response_model=Mode, **described(Right.ADMIN))
async def delete_mode(call: Caller, place: OnContext, recursive: Recursive = False) -> Response:
    """Back to READWRITE; what was set is answered."""
    found = await call.registry.delete_mode(place, recursive=recursive, by=call.by)
    return as_json({"mode": found})


@routes.get("/mode/{subject}", response_model=Mode, **described(Right.READ, 40409, 42208))
async def get_subject_mode(
    call: Caller, subject: OnSubject, default_to_global: DefaultToGlobal = False
) -> Response:
    """What is set for a subject, or is in force for it."""
    found = await call.registry.mode(subject, default_to_global=default_to_global)
    call.keep_list()
    return readable(call.request, {"mode": found})


@routes.put(
    "/mode/{subject}",
    response_model=Mode,
    **described(Right.ADMIN, *_BODY, 42204, 42205, 42208, body=Mode),
)
async def put_subject_mode(call: Caller, subject: OnSubject, force: Force = False) -> Response:
    """Set the mode of a subject. IMPORT is refused where it has versions, unless forced."""
    mode = await _mode_of(call)
    found = await call.registry.set_mode(subject, mode, force=force, by=call.by)
    return as_json({"mode": found})


@routes.delete(
    "/mode/{subject}",
    response_model=Mode,
    **described(Right.ADMIN, 40401, 42208),
)
async def delete_subject_mode(
    call: Caller, subject: OnSubject, recursive: Recursive = False
) -> Response:
    """Back to what holds for all; what was set is answered."""
    found = await call.registry.delete_mode(subject, recursive=recursive, by=call.by)
    return as_json({"mode": found})


async def _mode_of(call: Caller) -> str:
    mode = (await body_of(call.request)).get("mode")
    if not isinstance(mode, str):
        raise errors.invalid_mode()
    return mode
