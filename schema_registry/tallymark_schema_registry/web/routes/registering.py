"""Register, look up, check: what takes a schema."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BeforeValidator

from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import CheckReport
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.dry_run import DryRun
from tallymark_schema_registry.web.answers import as_json
from tallymark_schema_registry.web.call import Call, Caller
from tallymark_schema_registry.web.described import described
from tallymark_schema_registry.web.documents import (
    Compatibility,
    Registered,
    SchemaRequest,
    SchemaVersion,
)
from tallymark_schema_registry.web.params import (
    Deleted,
    Force,
    Format,
    Normalize,
    OnSubject,
    Verbose,
    Version,
    is_true,
)
from tallymark_schema_registry.web.reading import shown
from tallymark_schema_registry.web.requests import sent_of

_INVALID_SCHEMA = 42201
_BODY = (400, 413, 415, 42201, 42208, 42209, 42210)
DryRunFlag = Annotated[
    bool,
    BeforeValidator(is_true),
    Query(alias="dryRun", description="Say what would happen, and change nothing"),
]

routes = APIRouter(tags=["register, look up, check"])


@routes.post(
    "/subjects/{subject}/versions",
    response_model=Registered,
    **described(Right.WRITE, *_BODY, 409, 42205, 42207, body=SchemaRequest),
)
async def register(
    call: Caller,
    subject: OnSubject,
    normalize: Normalize = False,
    force: Force = False,
    dry_run: DryRunFlag = False,
    format: Format = "",
) -> Response:
    """Register a schema. The same content again is no new version, whatever its white space."""
    sent = await sent_of(call.request)
    if dry_run:
        report = await call.registry.dry_run(subject, sent, normalize=normalize, client=call.client)
        return as_json(_report(call, report))
    view = await call.registry.register(
        subject, sent, normalize=normalize, force=force, by=call.by, client=call.client
    )
    answer = as_json(call.profile.registered(await shown(call, view, format)))
    if not sent.references:
        call.keep_about(subject, view.subject)
    return answer


@routes.post(
    "/subjects/{subject}",
    response_model=SchemaVersion,
    **described(Right.READ, *_BODY, 40401, 40403, body=SchemaRequest),
)
async def look_up(
    call: Caller,
    subject: OnSubject,
    normalize: Normalize = False,
    deleted: Deleted = False,
    format: Format = "",
) -> Response:
    """The version of a subject that has this schema."""
    sent = await sent_of(call.request)
    view = await call.registry.look_up(
        subject, sent, normalize=normalize, deleted=deleted, client=call.client
    )
    answer = as_json(call.profile.version(await shown(call, view, format)))
    if not sent.references:
        call.keep_about(subject, view.subject)
    return answer


@routes.post(
    "/compatibility/subjects/{subject}/versions/{version}",
    response_model=Compatibility,
    **described(Right.READ, *_BODY, 40402, 42202, body=SchemaRequest),
)
async def check_with_version(
    call: Caller,
    subject: OnSubject,
    version: Version,
    verbose: Verbose = False,
    normalize: Normalize = False,
) -> Response:
    """Is a schema compatible with one version? A subject that is not there has no latest version,
    and everything is compatible with it."""
    return await _check(call, subject, version, verbose=verbose, normalize=normalize)


@routes.post(
    "/compatibility/subjects/{subject}/versions",
    response_model=Compatibility,
    **described(Right.READ, *_BODY, body=SchemaRequest),
)
async def check_with_all(
    call: Caller, subject: OnSubject, verbose: Verbose = False, normalize: Normalize = False
) -> Response:
    """Could a schema be registered? It is compared with the versions that the level names."""
    return await _check(call, subject, None, verbose=verbose, normalize=normalize)


async def _check(
    call: Call, subject: Subject, version: str | None, *, verbose: bool, normalize: bool
) -> Response:
    """``verbose`` adds the reasons, and takes an invalid schema as one of them."""
    try:
        sent = await sent_of(call.request)
        found = await call.registry.report(
            subject, version, sent, normalize=normalize, client=call.client
        )
    except RegistryError as error:
        if not (verbose and error.code == _INVALID_SCHEMA):
            raise
        found = CheckReport([error.message], [])
    body: dict[str, Any] = {"is_compatible": not found.reasons}
    if verbose:
        body["messages"] = found.reasons
        if found.warnings:
            body["warnings"] = found.warnings
    return as_json(body)


def _report(call: Call, report: DryRun) -> dict[str, Any]:
    body: dict[str, Any] = {"would_create": report.would_create}
    if report.schema_id is not None:
        body["id"] = report.schema_id
    if report.version is not None:
        body["version"] = report.version
    return body | {
        "compatible": report.compatible,
        "messages": report.messages,
        "warnings": report.warnings,
        "diff": report.diff,
    }
