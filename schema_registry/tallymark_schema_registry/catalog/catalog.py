"""All that the registry knows but the texts of the schemas: the state that the records build.

::

    Catalog -- contexts -- ContextCatalog -- schemas:  id  -> SchemaEntry (md5, references, uses)
                                          |- by_md5:   md5 -> id
                                          |- subjects: name -> SubjectCatalog -- versions
                                          |- configs, modes: name -> values ("": the context's)
                                          `- last_id: the highest id ever given

One thread owns a catalog. Nothing but :meth:`Catalog.apply` changes it. It takes about a
kilobyte a schema; texts are read from the store when they are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallymark_schema_registry.catalog.content import AVRO, Content, Reference
from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ContextRemoved,
    ModeSet,
    Record,
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
    VersionDeleted,
    VersionRemoved,
    VersionRestored,
)
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject, parse_subject


@dataclass(slots=True)
class SchemaEntry:
    """``used_by``: (subject's name, version) of every version that has the schema, deleted ones
    included."""

    schema_id: int
    md5: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""
    used_by: set[tuple[str, int]] = field(default_factory=set)

    def content(self, text: str) -> Content:
        """The whole content; ``text`` is what the store has under the id."""
        return Content(text, self.kind, self.references, self.metadata, self.rule_set)


class VersionEntry(NamedTuple):
    """One version of a subject. ``deleted``: softly."""

    version: int
    schema_id: int
    at_ms: int
    by: str = ""
    deleted: bool = False


@dataclass(slots=True)
class SubjectCatalog:
    """``versions`` by number, ascending, deleted ones included. ``last_version`` is the highest
    number ever used."""

    versions: dict[int, VersionEntry] = field(default_factory=dict)
    last_version: int = 0

    def live(self) -> list[VersionEntry]:
        """The versions that are not deleted, ascending."""
        return [entry for entry in self.versions.values() if not entry.deleted]


@dataclass(slots=True)
class ContextCatalog:
    """One context. ``by_md5``: the lowest id that has the content; an import can bring a content
    under several, and ``twins`` has all of these. ``referred``: (qualified subject, version) -> ids
    of this context that refer to it.

    ``last_id``, ``listed`` and each subject's ``last_version`` cannot be told from the schemas and
    versions that are left after permanent deletions; a store keeps them by themselves."""

    schemas: dict[int, SchemaEntry] = field(default_factory=dict)
    by_md5: dict[str, int] = field(default_factory=dict)
    twins: dict[str, set[int]] = field(default_factory=dict)
    subjects: dict[str, SubjectCatalog] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    referred: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    last_id: int = 0
    listed: bool = False


class Catalog:
    """``number`` is that of the last change that was applied; 0 before the first one."""

    def __init__(self) -> None:
        self.number = 0
        self.contexts: dict[str, ContextCatalog] = {DEFAULT_CONTEXT: ContextCatalog(listed=True)}

    def ids_of(self, context: str, md5: str) -> Collection[int]:
        """Every id that a context has for a content."""
        found = self.context(context)
        if md5 in found.twins:
            return found.twins[md5]
        return (found.by_md5[md5],) if md5 in found.by_md5 else ()

    def context(self, name: str) -> ContextCatalog:
        """The context, an empty one where there is none."""
        return self.contexts.get(name) or ContextCatalog()

    def subject(self, subject: Subject) -> SubjectCatalog | None:
        """None where it was never there, or is permanently deleted."""
        found = self.context(subject.context).subjects.get(subject.name)
        return found if found is not None and found.versions else None

    def version(self, subject: Subject, version: int) -> VersionEntry | None:
        """A version, deleted or not."""
        found = self.subject(subject)
        return found.versions.get(version) if found else None

    def schema(self, context: str, schema_id: int) -> SchemaEntry | None:
        """The schema with this id."""
        return self.context(context).schemas.get(schema_id)

    def configured(self) -> Iterator[Subject]:
        """Every place that has a config."""
        for name, context in self.contexts.items():
            for subject in context.configs:
                yield Subject(name, subject)

    def referrers(self, subject: Subject, version: int) -> Iterator[tuple[str, SchemaEntry]]:
        """(context, schema) of every schema that refers to a version."""
        place = subject.qualified, version
        for name, context in self.contexts.items():
            for schema_id in sorted(context.referred.get(place, ())):
                yield name, context.schemas[schema_id]

    def apply(self, number: int, record: Record) -> None:
        """Change what the record says. ``number`` counts the changes, without gaps; a record that
        was applied before changes nothing."""
        if number <= self.number:
            return
        self.number = number
        context = self.contexts.setdefault(record.context, ContextCatalog())
        if isinstance(record, SchemaAdded):
            add_schema(context, record)
        elif isinstance(record, SchemaRemoved):
            _remove_schema(context, record)
        elif isinstance(record, VersionAdded):
            add_version(context, record)
        elif isinstance(record, VersionRemoved):
            _remove_version(context, record.subject, record.version)
        elif isinstance(record, VersionDeleted | VersionRestored):
            versions = context.subjects[record.subject].versions
            entry = versions[record.version]
            versions[record.version] = entry._replace(deleted=isinstance(record, VersionDeleted))
        elif isinstance(record, ConfigSet):
            _set(context.configs, record.subject, record.values)
        elif isinstance(record, ModeSet):
            _set(context.modes, record.subject, record.mode)
        else:
            assert isinstance(record, ContextRemoved)
            context.listed = False


def add_schema(context: ContextCatalog, record: SchemaAdded) -> None:
    """Also what a start does for each schema of the store."""
    entry = SchemaEntry(
        record.schema_id,
        record.md5,
        record.kind,
        record.references,
        record.metadata,
        record.rule_set,
    )
    context.schemas[record.schema_id] = entry
    there = context.by_md5.setdefault(record.md5, record.schema_id)
    if there != record.schema_id:
        context.by_md5[record.md5] = min(there, record.schema_id)
        context.twins.setdefault(record.md5, {there}).add(record.schema_id)
    context.last_id = max(context.last_id, record.schema_id)
    for place in _places(record.context, record.references):
        context.referred.setdefault(place, set()).add(record.schema_id)


def add_version(context: ContextCatalog, record: VersionAdded) -> None:
    """Also what a start does for each version of the store; they come in any order."""
    subject = context.subjects.setdefault(record.subject, SubjectCatalog())
    there = subject.versions
    there[record.version] = VersionEntry(
        record.version, record.schema_id, record.at_ms, record.by, record.deleted
    )
    if record.version < subject.last_version:
        subject.versions = dict(sorted(there.items()))
    subject.last_version = max(subject.last_version, record.version)
    context.schemas[record.schema_id].used_by.add((record.subject, record.version))
    context.listed = True


def _remove_schema(context: ContextCatalog, record: SchemaRemoved) -> None:
    entry = context.schemas.pop(record.schema_id)
    left = context.twins.get(entry.md5, set()) - {record.schema_id}
    if left:
        context.by_md5[entry.md5] = min(left)
    else:
        context.by_md5.pop(entry.md5, None)
    if len(left) > 1:
        context.twins[entry.md5] = left
    else:
        context.twins.pop(entry.md5, None)
    for place in _places(record.context, entry.references):
        ids = context.referred.get(place, set())
        ids.discard(record.schema_id)
        if not ids:
            context.referred.pop(place, None)


def _remove_version(context: ContextCatalog, subject: str, version: int) -> None:
    """The subject stays, with its last number, since no number is used twice."""
    entry = context.subjects[subject].versions.pop(version)
    context.schemas[entry.schema_id].used_by.discard((subject, version))


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _places(context: str, references: tuple[Reference, ...]) -> Iterator[tuple[str, int]]:
    """A reference without a context means the context of the schema that has it."""
    for reference in references:
        yield parse_subject(reference.subject, context).qualified, reference.version
