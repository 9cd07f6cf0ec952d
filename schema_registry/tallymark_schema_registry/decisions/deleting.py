"""Deletion: softly first (it can be restored, and its id can be read), then permanently."""

from __future__ import annotations

from collections.abc import Collection

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, VersionEntry
from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ModeSet,
    Record,
    SchemaRemoved,
    VersionDeleted,
    VersionRemoved,
    VersionRestored,
)
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.asking import newest
from tallymark_schema_registry.decisions.commands import (
    Decision,
    DeleteSubject,
    DeleteVersion,
    RestoreVersion,
)
from tallymark_schema_registry.decisions.looking_up import version_number
from tallymark_schema_registry.decisions.references import check_unreferenced
from tallymark_schema_registry.decisions.scope import check_writable, followed


def delete_version(catalog: Catalog, command: DeleteVersion) -> Decision:
    """40406 where it is soft-deleted already, 40407 where it is not and should go for good."""
    subject = followed(catalog, command.subject)
    entry = _entry(catalog, subject, command.spec)
    if entry.deleted and not command.permanent:
        raise errors.version_deleted(subject.qualified, entry.version)
    check_writable(catalog, subject)
    going = {(subject, entry.version)}
    check_unreferenced(catalog, going, permanent=command.permanent)
    if not command.permanent:
        record = VersionDeleted(subject.context, subject.name, entry.version)
        return Decision((record,), entry.version)
    if not entry.deleted:
        raise errors.version_not_deleted(subject.qualified, entry.version)
    return Decision(_removed(catalog, subject, going), entry.version)


def delete_subject(catalog: Catalog, command: DeleteSubject) -> Decision:
    """40404 where all of it is soft-deleted already, 40405 where not all of it is and it should go
    for good."""
    subject = followed(catalog, command.subject)
    found = catalog.subject(subject)
    if found is None:
        raise errors.subject_not_found(subject.qualified)
    live = [entry.version for entry in found.live()]
    if not live and not command.permanent:
        raise errors.subject_deleted(subject.qualified)
    check_writable(catalog, subject)
    versions = list(found.versions) if command.permanent else live
    going = {(subject, version): None for version in versions}
    check_unreferenced(catalog, going, permanent=command.permanent)
    if command.permanent and live:
        raise errors.subject_not_deleted(subject.qualified)
    if command.permanent:
        return Decision(_removed(catalog, subject, going), versions)
    records = (VersionDeleted(subject.context, subject.name, version) for version in versions)
    return Decision(tuple(records), versions)


def restore_version(catalog: Catalog, command: RestoreVersion) -> Decision:
    """What it refers to is there: nothing that something refers to is removed. A version that is
    not deleted stays as it is."""
    subject = followed(catalog, command.subject)
    entry = _entry(catalog, subject, command.spec)
    check_writable(catalog, subject)
    if not entry.deleted:
        return Decision((), entry.version)
    record = VersionRestored(subject.context, subject.name, entry.version)
    return Decision((record,), entry.version)


def _entry(catalog: Catalog, subject: Subject, spec: str) -> VersionEntry:
    """The version, deleted or not; "latest" is the latest one that is not deleted."""
    number = version_number(spec)
    found = catalog.subject(subject)
    if found is None:
        raise errors.subject_not_found(subject.qualified)
    if number is None:
        latest = newest(catalog, subject)
        if latest is None:
            raise errors.version_not_found("latest")
        return latest.version
    entry = found.versions.get(number)
    if entry is None:
        raise errors.version_not_found(number)
    return entry


def _removed(
    catalog: Catalog, subject: Subject, going: Collection[tuple[Subject, int]]
) -> tuple[Record, ...]:
    """With its last version the subject's config and mode go."""
    context = catalog.contexts[subject.context]
    records = removed(catalog, going)
    if len(context.subjects[subject.name].versions) == len(going):
        if subject.name in context.configs:
            records.append(ConfigSet(subject.context, subject.name, None))
        if subject.name in context.modes:
            records.append(ModeSet(subject.context, subject.name, None))
    return tuple(records)


def removed(catalog: Catalog, going: Collection[tuple[Subject, int]]) -> list[Record]:
    """Versions go for good, and an id with the last version that has it."""
    records: list[Record] = [
        VersionRemoved(subject.context, subject.name, version) for subject, version in going
    ]
    left: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for subject, version in going:
        context = catalog.contexts[subject.context]
        schema_id = context.subjects[subject.name].versions[version].schema_id
        there = left.setdefault(
            (subject.context, schema_id), set(context.schemas[schema_id].used_by)
        )
        there.discard((subject.name, version))
    gone = [place for place, uses in left.items() if not uses]
    return records + [SchemaRemoved(context, schema_id) for context, schema_id in gone]
