"""What a principal sees of a catalog. Pure.

A schema is seen by its id if one of the subjects that have it may be read. References of a schema
that is seen are shown, since they are part of what identifies it; what they name is not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tallymark_schema_registry.access.grants import Principal, Right
from tallymark_schema_registry.catalog.catalog import Catalog, SchemaEntry
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject, parse_subject
from tallymark_schema_registry.decisions.references import closure, live_uses, numbered
from tallymark_schema_registry.errors import RegistryError


@dataclass(frozen=True, slots=True)
class Visible:
    """The part of ``catalog`` that ``principal`` may read."""

    catalog: Catalog
    principal: Principal

    def subject(self, subject: Subject) -> bool:
        """Whether the subject may be read, be it there or not."""
        return self.principal.may(Right.READ, subject)

    def name(self, qualified: str) -> bool:
        """The same, of a name as responses have it."""
        return self.subject(parse_subject(qualified))

    def context(self, name: str) -> bool:
        """Whether the context is listed: something in it may be read."""
        if name == DEFAULT_CONTEXT or self.principal.grants.all_of(Right.READ, name):
            return True
        if not self.principal.grants.reach(name):
            return False
        subjects = self.catalog.context(name).subjects
        return any(self.subject(Subject(name, each)) for each in subjects)

    def schema(self, context: str, schema_id: int) -> bool:
        """Whether the schema may be read by its id."""
        found = self.catalog.schema(context, schema_id)
        return found is not None and self._used(context, found.used_by)

    def live_schema(self, context: str, schema: SchemaEntry) -> bool:
        """Whether a version that has it, and is not deleted, may be read."""
        return self._used(context, live_uses(self.catalog, context, schema))

    def highest_id(self, context: str) -> int:
        """The highest id that may be read; 0: none."""
        ids = sorted(self.catalog.context(context).schemas, reverse=True)
        return next((each for each in ids if self.schema(context, each)), 0)

    def reference(self, context: str, reference: Reference) -> bool:
        """Whether everything that a reference reaches may be read. One that does not resolve is for
        others to refuse."""
        try:
            if not self.subject(parse_subject(reference.subject, context)):
                return False
            return self.reached(context, numbered(self.catalog, context, (reference,)))
        except RegistryError:
            return True

    def reached(self, context: str, references: tuple[Reference, ...]) -> bool:
        """Whether the schemas that numbered references reach may all be read by their ids."""
        return all(self.schema(*place) for place in closure(self.catalog, context, references))

    def versions_with_references(self, subject: Subject) -> bool:
        """Whether what the versions of a subject consist of may all be read: a comparison with them
        quotes types that they refer to."""
        context = self.catalog.context(subject.context)
        found = self.catalog.subject(subject)
        ids = {entry.schema_id for entry in found.versions.values()} if found else set[int]()
        return all(self.reached(subject.context, context.schemas[each].references) for each in ids)

    def change(self, change: Mapping[str, Any]) -> bool:
        """Whether a change may be shown. Of a schema that is gone nobody knows the subjects."""
        context = str(change["context"])
        if "subject" in change:
            return self.subject(Subject(context, str(change["subject"])))
        if self.principal.grants.all_of(Right.READ, context):
            return True
        return "schema_id" in change and self.schema(context, int(change["schema_id"]))

    def _used(self, context: str, uses: Collection[tuple[str, int]]) -> bool:
        return any(self.subject(Subject(context, name)) for name, _ in uses)
