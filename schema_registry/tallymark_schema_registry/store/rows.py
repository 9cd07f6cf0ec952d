"""What changes amount to, as rows. Pure: no SQL in here.

A key that is removed and added again by the same changes is deleted first and inserted afterwards;
one that is added and removed again is not inserted at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ContextRemoved,
    ModeSet,
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
    VersionDeleted,
    VersionRemoved,
    VersionRestored,
)
from tallymark_schema_registry.store.changes import Change, NewText, row_of

Key: TypeAlias = tuple[Any, ...]
Row: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class Part:
    """What happens to one table: ``deleted`` keys, then ``inserted`` rows by their key."""

    deleted: dict[Key, None] = field(default_factory=dict)
    inserted: dict[Key, Row] = field(default_factory=dict)

    def set(self, key: Key, row: Row | None) -> None:
        """The row is this one from now on, or not there."""
        self.deleted[key] = None
        self.inserted.pop(key, None)
        if row is not None:
            self.inserted[key] = key + row

    def add(self, key: Key, row: Row) -> None:
        """A row that was not there."""
        self.inserted[key] = key + row

    def remove(self, key: Key) -> None:
        """A row that was there, in the table or in these changes."""
        if self.inserted.pop(key, None) is None:
            self.deleted[key] = None


@dataclass(slots=True)
class Rows:
    """``marked``: key of a version in the table -> whether it is deleted softly. ``last_versions``
    and ``last_ids`` are kept where they are higher than those of the table; ``listed`` is None
    where these changes do not say."""

    changes: list[Row] = field(default_factory=list)
    schemas: Part = field(default_factory=Part)
    versions: Part = field(default_factory=Part)
    marked: dict[Key, bool] = field(default_factory=dict)
    configs: Part = field(default_factory=Part)
    modes: Part = field(default_factory=Part)
    last_versions: dict[Key, int] = field(default_factory=dict)
    last_ids: dict[str, int] = field(default_factory=dict)
    listed: dict[str, bool] = field(default_factory=dict)


def rows_of(changes: Sequence[Change], texts: Sequence[NewText]) -> Rows:
    """The rows of changes that follow each other. ``texts``: of every SchemaAdded."""
    rows = Rows()
    new = {text[:2]: text for text in texts}
    for change in changes:
        rows.changes.append(row_of(change))
        record = change.record
        if isinstance(record, SchemaAdded):
            _add_schema(rows, record, new[record.context, record.schema_id])
        elif isinstance(record, SchemaRemoved):
            rows.schemas.remove((record.context, record.schema_id))
        elif isinstance(record, VersionAdded):
            _add_version(rows, record)
        elif isinstance(record, VersionRemoved):
            key = record.context, record.subject, record.version
            rows.marked.pop(key, None)
            rows.versions.remove(key)
        elif isinstance(record, VersionDeleted | VersionRestored):
            _mark(rows, record)
        elif isinstance(record, ConfigSet):
            values = record.values
            row = None if values is None else (json.dumps(values, ensure_ascii=False),)
            rows.configs.set((record.context, record.subject), row)
        elif isinstance(record, ModeSet):
            mode = None if record.mode is None else (record.mode,)
            rows.modes.set((record.context, record.subject), mode)
        else:
            assert isinstance(record, ContextRemoved)
            rows.listed[record.context] = False
    return rows


def _add_schema(rows: Rows, record: SchemaAdded, text: NewText) -> None:
    twin = record.schema_id if text.is_twin else 0
    refers_to = json.dumps(record.references, ensure_ascii=False) if record.references else ""
    said = (record.md5, twin, record.kind, refers_to, record.metadata, record.rule_set)
    rows.schemas.add((record.context, record.schema_id), (*said, text.text))
    last = rows.last_ids.get(record.context, 0)
    rows.last_ids[record.context] = max(last, record.schema_id)


def _add_version(rows: Rows, record: VersionAdded) -> None:
    subject = record.context, record.subject
    row = (record.schema_id, record.deleted, record.at_ms, record.by)
    rows.versions.add((*subject, record.version), row)
    rows.last_versions[subject] = max(rows.last_versions.get(subject, 0), record.version)
    rows.listed[record.context] = True


def _mark(rows: Rows, record: VersionDeleted | VersionRestored) -> None:
    key = record.context, record.subject, record.version
    deleted = isinstance(record, VersionDeleted)
    there = rows.versions.inserted.get(key)
    if there is None:
        rows.marked[key] = deleted
    else:
        rows.versions.inserted[key] = (*there[:4], deleted, *there[5:])


def references_of(text: str) -> tuple[Reference, ...]:
    """What the column ``refers_to`` says."""
    return tuple(Reference(*item) for item in json.loads(text)) if text else ()
