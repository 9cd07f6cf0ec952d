"""Delete and restore."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.web.answers import as_json
from tallymark_schema_registry.web.call import Caller
from tallymark_schema_registry.web.described import described
from tallymark_schema_registry.web.params import OnSubject, Permanent, Version

routes = APIRouter(tags=["deletion"])


@routes.delete(
    "/subjects/{subject}",
    response_model=list[int],
    **described(Right.DELETE, 40401, 40404, 40405, 42205, 42206, 42208),
)
async def delete_subject(
    call: Caller, subject: OnSubject, permanent: Permanent = False
) -> Response:
    """Delete all versions of a subject. Softly: they can still be read by id, and be restored.
    For ever: only what is deleted softly already."""
    return as_json(await call.registry.delete_subject(subject, permanent=permanent, by=call.by))


@routes.delete(
    "/subjects/{subject}/versions/{version}",
    response_model=int,
    **described(Right.DELETE, 40401, 40402, 40406, 40407, 42202, 42205, 42206, 42208),
)
async def delete_version(
    call: Caller, subject: OnSubject, version: Version, permanent: Permanent = False
) -> Response:
    """Delete one version, softly or for ever. Its number is not used again."""
    number = await call.registry.delete_version(subject, version, permanent=permanent, by=call.by)
    return as_json(number)


@routes.post(
    "/subjects/{subject}/versions/{version}/restore",
    response_model=int,
    **described(Right.DELETE, 40401, 40402, 42202, 42205, 42208),
)
async def restore(call: Caller, subject: OnSubject, version: Version) -> Response:
    """Undo a soft deletion. A version that is not deleted stays as it is."""
    return as_json(await call.registry.restore(subject, version, by=call.by))
