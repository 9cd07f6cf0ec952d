"""Read all of the store but the texts, at a start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine.interfaces import DBAPICursor

from tallymark_schema_registry.catalog.catalog import (
    Catalog,
    ContextCatalog,
    SubjectCatalog,
    add_schema,
    add_version,
)
from tallymark_schema_registry.catalog.records import SchemaAdded, VersionAdded
from tallymark_schema_registry.store.rows import references_of


def load_catalog(cursor: DBAPICursor) -> Catalog:
    """The catalog that all changes build, within the caller's snapshot."""
    catalog = Catalog()

    def context(name: str) -> ContextCatalog:
        return catalog.contexts.setdefault(name, ContextCatalog())

    query = "SELECT context, id, md5, kind, refers_to, metadata, rule_set FROM schemas"
    for name, schema_id, md5, kind, refers_to, metadata, rule_set in _rows(cursor, query):
        references = references_of(refers_to)
        added = SchemaAdded(name, schema_id, md5, kind, references, metadata, rule_set)
        add_schema(context(name), added)
    query = (
        "SELECT context, subject, version, schema_id, registered_ms, registered_by, deleted "
        "FROM versions ORDER BY context, subject, version"
    )
    for name, subject, version, schema_id, at_ms, by, deleted in _rows(cursor, query):
        there = VersionAdded(name, subject, version, schema_id, at_ms, by, bool(deleted))
        add_version(context(name), there)
    query = "SELECT context, subject, last_version FROM subjects"
    for name, subject, last in _rows(cursor, query):
        found = context(name).subjects.setdefault(subject, SubjectCatalog())
        found.last_version = max(found.last_version, last)
    for name, subject, config in _rows(cursor, "SELECT context, subject, config FROM levels"):
        context(name).configs[subject] = json.loads(config)
    for name, subject, mode in _rows(cursor, "SELECT context, subject, mode FROM modes"):
        context(name).modes[subject] = mode
    for name, last, listed in _rows(cursor, "SELECT context, last_id, listed FROM contexts"):
        found_context = context(name)
        found_context.last_id = max(found_context.last_id, last)
        found_context.listed = bool(listed)
    query = "SELECT coalesce(max(number), 0) FROM changes"
    catalog.number = _rows(cursor, query)[0][0]
    return catalog


def _rows(cursor: DBAPICursor, query: str) -> Sequence[Any]:
    cursor.execute(query)
    return cursor.fetchall()
