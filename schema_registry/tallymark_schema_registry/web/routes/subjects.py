"""List and read subjects and their versions."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import BeforeValidator

from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.web.answers import raw, readable
from tallymark_schema_registry.web.call import Caller
from tallymark_schema_registry.web.described import described
from tallymark_schema_registry.web.documents import SchemaVersion
from tallymark_schema_registry.web.params import (
    Deleted,
    DeletedAsNegative,
    DeletedOnly,
    Format,
    InContext,
    OnSubject,
    Paging,
    ReferenceFormat,
    SubjectPrefix,
    Version,
    is_true,
)
from tallymark_schema_registry.web.reading import (
    in_context,
    is_qualified,
    latest_with,
    resolved,
    shown,
    with_rules,
)

MAX_SCHEMAS: Final = 1_000
"""In one answer of ``GET /schemas``; the next ones come with ``offset``."""
LatestOnly = Annotated[
    bool,
    BeforeValidator(is_true),
    Query(alias="latestOnly", description="The latest of each subject"),
]
Aliases = Annotated[
    bool, BeforeValidator(is_true), Query(description="Under the aliases of their subjects too")
]
_VERSION = (40401, 40402, 42202, 42208)

routes = APIRouter(tags=["subjects and versions"])


@routes.get("/subjects", response_model=list[str], **described(Right.READ, 404))
async def subjects(
    call: Caller,
    context: InContext,
    page: Paging,
    prefix: SubjectPrefix = None,
    deleted: Deleted = False,
    deleted_only: DeletedOnly = False,
) -> Response:
    """The names of all subjects, sorted; those of other contexts as `:.context:name`."""
    found = await call.registry.subjects(
        in_context(prefix, context), deleted=deleted, deleted_only=deleted_only
    )
    call.keep_list()
    return readable(call.request, page.of(found))


@routes.get(
    "/subjects/{subject}/versions",
    response_model=list[int],
    **described(Right.READ, 404, 40401, 42208),
)
async def versions(
    call: Caller,
    subject: OnSubject,
    page: Paging,
    deleted: Deleted = False,
    deleted_only: DeletedOnly = False,
    deleted_as_negative: DeletedAsNegative = False,
) -> Response:
    """The numbers of a subject's versions."""
    found = await call.registry.versions(
        subject,
        deleted=deleted,
        deleted_only=deleted_only,
        deleted_as_negative=deleted_as_negative,
    )
    call.keep_list()
    return readable(call.request, page.of(found))


@routes.get(
    "/subjects/{subject}/versions/{version}",
    response_model=SchemaVersion,
    **described(Right.READ, *_VERSION),
)
async def version(
    call: Caller,
    subject: OnSubject,
    version: Version,
    deleted: Deleted = False,
    format: Format = "",
    reference_format: ReferenceFormat = "",
) -> Response:
    """One version."""
    view = await call.registry.version(subject, version, deleted=deleted)
    view = await shown(call, view, format)
    body = call.profile.version(view, qualified=is_qualified(reference_format))
    call.keep_about(subject, view.subject)
    return readable(call.request, body)


@routes.get(
    "/subjects/{subject}/versions/{version}/schema",
    response_model=None,
    **described(Right.READ, *_VERSION),
)
async def version_text(
    call: Caller,
    subject: OnSubject,
    version: Version,
    deleted: Deleted = False,
    format: Format = "",
) -> Response:
    """The schema of one version itself, not in a JSON string."""
    view = await call.registry.version(subject, version, deleted=deleted)
    text = await resolved(call, view, format)
    call.keep_about(subject, view.subject)
    return raw(call.request, text)


@routes.get(
    "/subjects/{subject}/versions/{version}/referencedby",
    response_model=list[int],
    **described(Right.READ, 404, *_VERSION),
)
async def referenced_by(
    call: Caller, subject: OnSubject, version: Version, page: Paging, deleted: Deleted = False
) -> Response:
    """The ids of the schemas that refer to a version."""
    found = await call.registry.referenced_by(subject, version, deleted=deleted)
    return readable(call.request, page.of(found))


@routes.get(
    "/subjects/{subject}/metadata",
    response_model=SchemaVersion,
    **described(Right.READ, 40401, 40403, 42208),
)
async def with_metadata(
    call: Caller,
    subject: OnSubject,
    key: Annotated[list[str], Query(description="Names of properties")] = [],  # noqa: B006
    value: Annotated[list[str], Query(description="Their values, in the same order")] = [],  # noqa: B006
    deleted: Deleted = False,
    format: Format = "",
) -> Response:
    """The latest version whose metadata has these properties."""
    wanted = dict(zip(key, value, strict=False))
    view = await latest_with(call, subject, wanted, deleted=deleted)
    return readable(call.request, call.profile.version(await shown(call, view, format)))


@routes.get("/schemas", response_model=list[SchemaVersion], **described(Right.READ, 404))
async def schemas(
    call: Caller,
    context: InContext,
    page: Paging,
    prefix: SubjectPrefix = None,
    latest_only: LatestOnly = False,
    deleted: Deleted = False,
    aliases: Aliases = False,
    rule_type: Annotated[
        str, Query(alias="ruleType", description="Only those with a rule of this type")
    ] = "",
) -> Response:
    """All versions of all subjects, at most 1,000 at a time."""
    where, limit = in_context(prefix, context), min(page.limit or MAX_SCHEMAS, MAX_SCHEMAS)
    if rule_type:
        part = page._replace(limit=limit)
        found = await with_rules(
            call, where, rule_type, part, latest_only=latest_only, deleted=deleted
        )
    else:
        found = await call.registry.all_versions(
            where,
            latest_only=latest_only,
            deleted=deleted,
            aliases=aliases,
            offset=page.offset,
            limit=limit,
        )
    return readable(call.request, [call.profile.version(view) for view in found])
