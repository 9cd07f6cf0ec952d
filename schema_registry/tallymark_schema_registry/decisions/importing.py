"""Versions whose number and id were given elsewhere: IMPORT mode, and imports of whole registries.

A version keeps its id, an id its content: sent again, nothing changes; sent with something else, it
is refused. Nothing is compared or merged, since it was when it was new.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SchemaEntry, VersionEntry
from tallymark_schema_registry.catalog.content import Content, is_unicode
from tallymark_schema_registry.catalog.contracts import metadata_text, rule_set_text
from tallymark_schema_registry.catalog.records import (
    Record,
    SchemaAdded,
    VersionAdded,
    VersionDeleted,
    VersionRestored,
)
from tallymark_schema_registry.catalog.subject import Subject, check_registrable
from tallymark_schema_registry.decisions.asking import is_same
from tallymark_schema_registry.decisions.commands import Decision, Found, Import, NewContent
from tallymark_schema_registry.decisions.references import closure

MAX = 2**31 - 1
"""Of ids and versions."""


def import_version(catalog: Catalog, command: Import) -> Decision:
    """An alias is not followed: it was followed when the version was new."""
    return take(
        catalog,
        command.subject,
        command.version,
        command.schema_id,
        command.content,
        deleted=command.deleted,
        at_ms=command.at_ms,
        by=command.by,
    )


def take(
    catalog: Catalog,
    subject: Subject,
    version: int,
    schema_id: int,
    content: Content,
    *,
    deleted: bool = False,
    at_ms: int = 0,
    by: str = "",
) -> Decision:
    """The version with this id and content. A soft-deleted one that comes undeleted is restored,
    and the other way round."""
    check_registrable(subject)
    content = _normal(content)
    _check(catalog, subject, version, schema_id, content)
    context, name = subject
    schema = catalog.schema(context, schema_id)
    entry = catalog.version(subject, version)
    records: list[Record] = []
    contents: tuple[NewContent, ...] = ()
    if schema is None:
        added = added_schema(context, schema_id, content)
        records.append(added)
        contents = (NewContent(context, schema_id, content),)
        schema = entry_of(added)
    if entry is None:
        entry = VersionEntry(version, schema_id, at_ms, by, deleted)
        records.append(VersionAdded(context, name, version, schema_id, at_ms, by, deleted))
    elif entry.deleted != deleted:
        entry = entry._replace(deleted=deleted)
        change = VersionDeleted if deleted else VersionRestored
        records.append(change(context, name, version))
    return Decision(tuple(records), Found(subject, entry, schema), contents)


def _normal(content: Content) -> Content:
    """Metadata and rule set as a request of ours would have them: another server wrote them. Raises
    the 400 or 42201 error where a type is wrong."""
    if not is_unicode(content.text, *(reference.name for reference in content.references)):
        raise errors.invalid_schema("a text has one half of a surrogate pair")
    metadata, rule_set = content.metadata, content.rule_set
    return replace(
        content,
        metadata=metadata_text(json.loads(metadata), strict=False) if metadata else "",
        rule_set=rule_set_text(json.loads(rule_set), strict=False) if rule_set else "",
    )


def _check(
    catalog: Catalog, subject: Subject, version: int, schema_id: int, content: Content
) -> None:
    if not 1 <= version <= MAX:
        raise errors.invalid_version(str(version))
    if not 0 <= schema_id <= MAX:
        raise errors.invalid_schema(f"{schema_id} is not an id: it must be between 0 and 2^31-1")
    closure(catalog, subject.context, content.references)
    schema = catalog.schema(subject.context, schema_id)
    if schema is not None and not is_same(schema, content, content.md5()):
        raise errors.not_permitted(
            f"Overwrite new schema with id {schema_id} in context {subject.context} is not "
            "permitted."
        )
    entry = catalog.version(subject, version)
    if entry is not None and entry.schema_id != schema_id:
        raise errors.not_permitted(
            f"Overwrite version {version} of subject {subject.qualified}, which has id "
            f"{entry.schema_id}, with id {schema_id} is not permitted."
        )


def added_schema(context: str, schema_id: int, content: Content) -> SchemaAdded:
    """The record that gives an id to a content."""
    return SchemaAdded(
        context,
        schema_id,
        content.md5(),
        content.kind,
        content.references,
        content.metadata,
        content.rule_set,
    )


def entry_of(added: SchemaAdded) -> SchemaEntry:
    """What the catalog will have, for a reply before the record is applied."""
    return SchemaEntry(
        added.schema_id, added.md5, added.kind, added.references, added.metadata, added.rule_set
    )
