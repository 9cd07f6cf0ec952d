"""Reading schemas by their id and guid, and the versions that use them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SchemaEntry
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions.asking import with_id
from tallymark_schema_registry.decisions.commands import Found
from tallymark_schema_registry.decisions.lists import version
from tallymark_schema_registry.decisions.references import live_uses
from tallymark_schema_registry.decisions.scope import followed


class Located(NamedTuple):
    """A schema and the context that it was found in; ``found`` where a subject was named."""

    context: str
    schema: SchemaEntry
    found: Found | None = None


def by_id(catalog: Catalog, schema_id: int, subject: Subject) -> Located:
    """The schema with an id; the 40403 error where there is none. Soft-deleted ones are there.

    ``subject``: where to look. A context's place (name "") means the context. A subject of the
    default context means the first context in which this subject has the id, since consumers name a
    topic and know of no contexts; else any subject of the default context. A subject of another
    context must have the id."""
    subject = followed(catalog, subject)
    if subject.name:
        for context in _contexts(catalog, subject.context):
            there = Subject(context, subject.name)
            found = with_id(catalog, there, schema_id, deleted=True)
            if found:
                return Located(context, found.schema, found)
        if subject.context != DEFAULT_CONTEXT:
            raise errors.schema_not_found(schema_id)
    schema = catalog.schema(subject.context, schema_id)
    if schema is None:
        raise errors.schema_not_found(schema_id)
    if not subject.name or not schema.used_by:
        return Located(subject.context, schema)
    user = Subject(subject.context, min(schema.used_by)[0])
    return Located(subject.context, schema, with_id(catalog, user, schema_id, deleted=True))


def _contexts(catalog: Catalog, first: str) -> Iterator[str]:
    yield first
    if first == DEFAULT_CONTEXT:
        yield from sorted(name for name in catalog.contexts if name != DEFAULT_CONTEXT)


def uses(
    catalog: Catalog, schema_id: int, subject: Subject, *, deleted: bool = False
) -> list[tuple[str, int]]:
    """(qualified subject, version) of the versions that have the schema, by subject. ``subject``
    says where to look for the id, as in :func:`by_id`; 40403."""
    located = by_id(catalog, schema_id, subject)
    context, schema = located.context, located.schema
    found = sorted(schema.used_by) if deleted else live_uses(catalog, context, schema)
    return [(Subject(context, name).qualified, number) for name, number in found]


def referenced_by(
    catalog: Catalog, subject: Subject, spec: str, *, deleted: bool = False
) -> list[int]:
    """Ids of the schemas of the version's context that refer to it, ascending; those that only
    soft-deleted versions have, with ``deleted``. 40401, 40402 or 42202."""
    found = version(catalog, subject, spec, deleted=True)
    there = found.subject.context
    return [
        schema.schema_id
        for context, schema in catalog.referrers(found.subject, found.version.version)
        if context == there and (deleted or live_uses(catalog, context, schema))
    ]


def by_guid(catalog: Catalog, guid: str) -> Located:
    """The schema with a guid, of the default context if that has it. 40403."""
    for context, schema_id in ids_of_guid(catalog, guid):
        return Located(context, catalog.contexts[context].schemas[schema_id])
    raise errors.schema_not_found()


def ids_of_guid(catalog: Catalog, guid: str) -> list[tuple[str, int]]:
    """(context, id) of every schema with a guid; none where it is not there, or is no guid."""
    try:
        md5 = uuid.UUID(guid).hex
    except ValueError:
        return []
    names = _contexts(catalog, DEFAULT_CONTEXT)
    return [(name, schema_id) for name in names for schema_id in sorted(catalog.ids_of(name, md5))]


def max_id(catalog: Catalog, context: str) -> int:
    """The highest id that the context ever gave; 0 where it gave none."""
    return catalog.context(context).last_id
