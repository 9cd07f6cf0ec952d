"""The tables of what is known of the schema registry, as CSV and JSON: subjects, the versions of
one, what differs between two. From the snapshot in memory, as :mod:`.cluster_tables`."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import Field, flag, listed, number, text
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Problem
from tallymark_dashboards.app.table_fields import PREFIX, READ, Find, Row, known, table_router
from tallymark_dashboards.frame.requests import context_of
from tallymark_dashboards.pages.schemas import VersionRow, parsed_of, version_rows
from tallymark_dashboards.snapshots.registry_shapes import (
    RegistryState,
    SubjectState,
    SubjectVersion,
)
from tallymark_dashboards.view.clusters.schema_texts import diff_lines

MOST_VERSIONS: Final = 10_000
router = table_router("schemas")
SUBJECTS: Final = Listing(
    "subjects",
    {
        "subject": text("The subject."),
        "type": text("The type of its latest version: AVRO, JSON, PROTOBUF; empty: all deleted."),
        "versions": number("Its versions, deleted ones, too."),
        "latest": known("Its latest version that is not deleted."),
        "schema_id": known("The id of that version."),
        "level": text("The level of compatibility that holds for it; empty: not known."),
        "own_level": flag("Whether it has a level of its own; else it is the registry's."),
        **READ,
    },
    {"subject": str},
)
VERSIONS: Final = Listing(
    "subject_versions",
    {
        "subject": text("The subject."),
        "version": number("The version."),
        "schema_id": number("Its id."),
        "type": text("AVRO, JSON or PROTOBUF."),
        "deleted": flag("Whether it is deleted."),
        "compatible": Field(
            "flag", "Whether it may follow those before it. Null: not checked.", may_lack=True
        ),
        "conflicts_with": known("The version that it may not follow."),
        "reasons": listed("What stands against it, or why it was not checked."),
        "references": listed("What it refers to: name, subject, version."),
        "schema": text("Its text; empty: left out, because the registry has too many."),
    },
    {"version": int},
)
DIFFERENCES: Final = Listing(
    "schema_differences",
    {
        "action": text("+: only in the newer one, -: only in the older one, empty: in both."),
        "old_line": known("The line in the one compared against."),
        "new_line": known("The line in the one shown."),
        "text": text("The line; …: lines that are in both are left out."),
    },
    {},
)
Subject = Annotated[params.Name, Query(description="The subject.")]
Version = Annotated[int, Query(ge=1, le=2**31 - 1, description="A version of it.")]


@lists.route(router, "/subjects", SUBJECTS)
def subjects(request: Request, asked: params.Paged, find: Find = "") -> Response:
    """The subjects of the registry."""
    registry = _registry(request)
    rows = [
        _subject_row(registry, one)
        for name, one in registry.subjects.value.items()
        if find.lower() in name.lower()
    ]
    return lists.answer_rows(request, SUBJECTS, rows, asked)


@lists.route(router, "/subject-versions", VERSIONS)
def subject_versions(request: Request, asked: params.Paged, subject: Subject) -> Response:
    """The versions of a subject; the newest are checked against those before them."""
    registry = _registry(request)
    found = _subject(registry, subject)
    rows = [
        _version_row(subject, one)
        for one in version_rows(found, parsed_of(registry), MOST_VERSIONS)
    ]
    return lists.answer_rows(request, VERSIONS, rows, asked)


@lists.route(router, "/schema-differences", DIFFERENCES)
def schema_differences(
    request: Request, subject: Subject, version: Version, against: Version
) -> Response:
    """The lines in which a version differs from another one, with some that both have around
    them."""
    registry = _registry(request)
    found = _subject(registry, subject)
    parsed = parsed_of(registry)
    new, old = (
        parsed.canonical(subject, one.version, one.text)
        for one in (_version(found, version), _version(found, against))
    )
    rows = [
        {
            "action": one.action if one.action in "+-" else "",
            "old_line": one.old or None,
            "new_line": one.new or None,
            "text": one.text or ("…" if one.action == "…" else ""),
        }
        for one in diff_lines(old, new)
    ]
    return lists.answer_whole(request, DIFFERENCES, rows)


def _registry(request: Request) -> RegistryState:
    return context_of(request).snapshots.registry


def _subject(registry: RegistryState, name: str) -> SubjectState:
    found = registry.subjects.value.get(name)
    if found is None:
        raise Problem(404, f"no subject {name} is known", f"list them: {PREFIX}/subjects")
    return found


def _version(subject: SubjectState, version: int) -> SubjectVersion:
    found = next((one for one in subject.versions if one.version == version), None)
    if found is None:
        do = f"list them: {PREFIX}/subject-versions"
        raise Problem(404, f"{subject.subject} has no version {version}", do)
    return found


def _subject_row(registry: RegistryState, one: SubjectState) -> Row:
    latest = one.latest
    return {
        "subject": one.subject,
        "type": latest.kind if latest else "",
        "versions": len(one.versions),
        "latest": latest.version if latest else None,
        "schema_id": latest.schema_id if latest else None,
        "level": one.level,
        "own_level": one.own_level,
        "as_of": registry.subjects.at,
        "error": registry.subjects.error,
    }


def _version_row(subject: str, row: VersionRow) -> Row:
    one, check = row.version, row.check
    return {
        "subject": subject,
        "version": one.version,
        "schema_id": one.schema_id,
        "type": one.kind,
        "deleted": one.deleted,
        "compatible": check.compatible,
        "conflicts_with": check.other or None,
        "reasons": list(check.reasons) or ([check.said] if check.said else []),
        "references": [[to.name, to.subject, to.version] for to in one.references],
        "schema": one.text,
    }
