"""/schemas: by id and by guid."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BeforeValidator

from tallymark_schema_registry import errors
from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.catalog.subject import Subject, parse_subject
from tallymark_schema_registry.web.answers import Keep, raw, readable
from tallymark_schema_registry.web.call import Caller
from tallymark_schema_registry.web.described import described
from tallymark_schema_registry.web.documents import ContextId, SchemaById, SubjectVersion
from tallymark_schema_registry.web.params import (
    Deleted,
    Format,
    InContext,
    OfSubject,
    Paging,
    ReferenceFormat,
    SchemaId,
    is_true,
)
from tallymark_schema_registry.web.reading import is_qualified, resolved, shown

_MISSING = (404, 40403)
_FOUND = (404, 40403, 42208)
Guid = Annotated[str, Path(description="The schema's guid")]
MaxId = Annotated[
    bool,
    BeforeValidator(is_true),
    Query(alias="fetchMaxId", description="With the highest id ever given"),
]
IncludeSubjects = Annotated[
    bool,
    BeforeValidator(is_true),
    Query(alias="includeSubjects", description="With the subjects that have it"),
]

routes = APIRouter(tags=["by id"])


@routes.get("/schemas/types", response_model=list[str], **described(None))
async def types(call: Caller) -> Response:
    """The types that can be registered."""
    return readable(call.request, ["AVRO"])


@routes.get("/schemas/ids/{schema_id}", response_model=SchemaById, **described(Right.READ, *_FOUND))
async def by_id(
    call: Caller,
    context: InContext,
    schema_id: SchemaId,
    subject: OfSubject = "",
    format: Format = "",
    reference_format: ReferenceFormat = "",
    max_id: MaxId = False,
    include_subjects: IncludeSubjects = False,
) -> Response:
    """A schema by its id. It never changes, and may be kept."""
    where = _hint(subject, context)
    found = await call.registry.by_id(where.context, schema_id, where if where.name else None)
    view = await shown(call, found, format)
    body: dict[str, Any] = call.profile.schema(view, qualified=is_qualified(reference_format))
    if max_id:
        body["maxId"] = await call.registry.max_id(view.context)
    if include_subjects:
        uses = await call.registry.uses(view.context, schema_id)
        body["subjects"] = sorted({name for name, _ in uses})
    changes = max_id or include_subjects or bool(where.name)
    if not changes:
        call.keep_schema(where.context, schema_id)
    return readable(call.request, body, Keep.ASK_AGAIN if changes else Keep.FOR_EVER)


@routes.get(
    "/schemas/ids/{schema_id}/schema",
    response_model=None,
    **described(Right.READ, *_FOUND),
)
async def text_by_id(
    call: Caller,
    context: InContext,
    schema_id: SchemaId,
    subject: OfSubject = "",
    format: Format = "",
) -> Response:
    """The schema itself, not in a JSON string."""
    where = _hint(subject, context)
    view = await call.registry.by_id(where.context, schema_id, where if where.name else None)
    text = await resolved(call, view, format)
    if not where.name:
        call.keep_schema(where.context, schema_id)
    return raw(call.request, text, Keep.FOR_EVER)


@routes.get(
    "/schemas/ids/{schema_id}/versions",
    response_model=list[SubjectVersion],
    **described(Right.READ, *_FOUND),
)
async def versions_of_id(
    call: Caller,
    context: InContext,
    schema_id: SchemaId,
    page: Paging,
    subject: OfSubject = "",
    deleted: Deleted = False,
) -> Response:
    """Every version that has the schema."""
    uses = await _uses(call, context, schema_id, subject, deleted)
    rows = [{"subject": name, "version": version} for name, version in uses]
    return readable(call.request, page.of(rows))


@routes.get(
    "/schemas/ids/{schema_id}/subjects",
    response_model=list[str],
    **described(Right.READ, *_FOUND),
)
async def subjects_of_id(
    call: Caller,
    context: InContext,
    schema_id: SchemaId,
    page: Paging,
    subject: OfSubject = "",
    deleted: Deleted = False,
) -> Response:
    """Every subject that has the schema."""
    uses = await _uses(call, context, schema_id, subject, deleted)
    return readable(call.request, page.of(sorted({name for name, _ in uses})))


@routes.get("/schemas/guids/{guid}", response_model=SchemaById, **described(Right.READ, 40403))
async def by_guid(
    call: Caller, guid: Guid, format: Format = "", reference_format: ReferenceFormat = ""
) -> Response:
    """A schema by its guid, which is the same in every registry."""
    view = await shown(call, await call.registry.by_guid(guid), format)
    body = call.profile.schema(view, qualified=is_qualified(reference_format))
    return readable(call.request, body, Keep.FOR_EVER)


@routes.get(
    "/schemas/guids/{guid}/ids",
    response_model=list[ContextId],
    **described(Right.READ, 40403),
)
async def ids_of_guid(call: Caller, guid: Guid) -> Response:
    """The ids that it has here, one in each context."""
    found = await call.registry.ids_of_guid(guid)
    if not found:
        raise errors.schema_not_found()
    return readable(call.request, [{"context": name, "id": number} for name, number in found])


async def _uses(
    call: Caller, context: str, schema_id: int, subject: str, deleted: bool
) -> list[tuple[str, int]]:
    where = _hint(subject, context)
    return await call.registry.uses(
        where.context, schema_id, subject=where if where.name else None, deleted=deleted
    )


def _hint(subject: str, context: str) -> Subject:
    """The subject that a request names, and so the context; else the context of the path."""
    return parse_subject(subject, context)
