"""A registry over a catalog in memory: what tests of rights need of the real one."""

from __future__ import annotations

from typing import Any

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog, SubjectCatalog, VersionEntry
from tallymark_schema_registry.catalog.content import Content, guid_of
from tallymark_schema_registry.catalog.records import (
    ConfigSet,
    ModeSet,
    Record,
    SchemaAdded,
    VersionAdded,
    VersionDeleted,
    VersionRestored,
)
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject, parse_subject
from tallymark_schema_registry.decisions import scope
from tallymark_schema_registry.decisions.commands import SchemaView, Sent, VersionView
from tallymark_schema_registry.decisions.references import numbered
from tallymark_schema_registry.node.dry_run import DryRun
from tallymark_schema_registry.node.registry import Registry


class CatalogRegistry(Registry):
    """Texts are not parsed; one with the word "conflict" is compatible with nothing."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.contents: dict[tuple[str, int], Content] = {}
        self.log: list[dict[str, Any]] = []
        self.by: list[str] = []

    def _apply(self, record: Record) -> None:
        self.catalog.apply(self.catalog.number + 1, record)
        self.log.append({"number": self.catalog.number, **vars_of(record)})

    def _live(self, subject: Subject) -> SubjectCatalog:
        subject = scope.followed(self.catalog, subject)
        found = self.catalog.subject(subject)
        if found is None or not found.live():
            raise errors.subject_not_found(subject.qualified)
        return found

    def _view(self, subject: Subject, entry: VersionEntry) -> VersionView:
        content = self.contents[subject.context, entry.schema_id]
        return VersionView(
            subject, entry.version, entry.schema_id, content.md5(), content, 0, entry.by, False
        )

    async def ping(self) -> None:
        """It is there."""

    async def register(
        self, subject: Subject, sent: Sent, *, by: str = "", **_: Any
    ) -> VersionView:
        subject = scope.followed(self.catalog, subject)
        context = self.catalog.context(subject.context)
        there = context.subjects.get(subject.name, SubjectCatalog())
        references = numbered(self.catalog, subject.context, sent.references)
        content = Content(sent.text or "", references=references)
        if "conflict" in content.text and there.versions:
            old = self._view(subject, there.live()[-1]).content.text
            raise errors.incompatible(subject.qualified, [f"{{oldSchema: '{old}'}}"])
        self.by.append(by)
        md5 = content.md5()
        schema_id = context.by_md5.get(md5) or context.last_id + 1
        if schema_id not in context.schemas:
            self.contents[subject.context, schema_id] = content
            self._apply(SchemaAdded(subject.context, schema_id, md5, references=references))
        version = there.last_version + 1
        self._apply(VersionAdded(subject.context, subject.name, version, schema_id, 0, by))
        found = self.catalog.version(subject, version)
        assert found is not None
        return self._view(subject, found)

    async def dry_run(self, subject: Subject, sent: Sent, **_: Any) -> DryRun:
        reasons = await self.check(subject, None, sent)
        return DryRun(not reasons, None, None, None, not reasons, reasons, [{"text": sent.text}])

    async def look_up(self, subject: Subject, sent: Sent, **_: Any) -> VersionView:
        found = self._live(subject)
        for entry in found.live():
            if self._view(subject, entry).content.text == sent.text:
                return self._view(subject, entry)
        raise errors.schema_not_found()

    async def check(self, subject: Subject, spec: str | None, sent: Sent, **_: Any) -> list[str]:
        numbered(self.catalog, subject.context, sent.references)
        found = self.catalog.subject(scope.followed(self.catalog, subject))
        if found is None or "conflict" not in (sent.text or ""):
            return []
        return [self._view(subject, found.live()[-1]).content.text]

    async def import_version(
        self, subject: Subject, version: int, schema_id: int, content: Content, **more: Any
    ) -> VersionView:
        return await self.register(subject, Sent(content.text), by=more["by"])

    async def version(self, subject: Subject, spec: str, *, deleted: bool = False) -> VersionView:
        found = self._live(subject)
        target = scope.followed(self.catalog, subject)
        wanted = found.live()[-1].version if spec == "latest" else int(spec)
        if wanted not in found.versions:
            raise errors.version_not_found(wanted)
        return self._view(target, found.versions[wanted])

    async def versions(self, subject: Subject, **_: Any) -> list[int]:
        return [entry.version for entry in self._live(subject).live()]

    async def subjects(
        self, prefix: str = "", *, context: str = DEFAULT_CONTEXT, **_: Any
    ) -> list[str]:
        return sorted(
            Subject(each, name).qualified
            for each, held in self.catalog.contexts.items()
            for name in held.subjects
            if prefix == ":*:" or (each == context and name.startswith(prefix))
        )

    async def all_versions(
        self, prefix: str = "", *, offset: int = 0, limit: int = -1, **_: Any
    ) -> list[VersionView]:
        names = [parse_subject(name) for name in await self.subjects(prefix)]
        found = [
            self._view(name, entry)
            for name in names
            for entry in self._live(name).versions.values()
        ][offset:]
        return found[:limit] if limit > 0 else found

    async def by_id(
        self, context: str, schema_id: int, subject: Subject | None = None
    ) -> SchemaView:
        schema = self.catalog.schema(context, schema_id)
        if schema is None:
            raise errors.schema_not_found(schema_id)
        content = self.contents[context, schema_id]
        if subject and any(name == subject.name for name, _ in schema.used_by):
            return SchemaView(context, schema_id, schema.md5, content, subject, 1)
        return SchemaView(context, schema_id, schema.md5, content)

    async def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        return [
            (name, schema_id)
            for name, context in self.catalog.contexts.items()
            for schema_id, schema in context.schemas.items()
            if guid_of(schema.md5) == guid
        ]

    async def by_guid(self, guid: str) -> SchemaView:
        found = await self.ids_of_guid(guid)
        if not found:
            raise errors.RegistryError(404, 40403, f"Schema {guid} not found")
        return await self.by_id(*found[0])

    async def max_id(self, context: str) -> int:
        return self.catalog.context(context).last_id

    async def uses(
        self, context: str, schema_id: int, *, subject: Subject | None = None, **_: Any
    ) -> list[tuple[str, int]]:
        await self.by_id(context, schema_id)
        found = self.catalog.context(context).schemas[schema_id].used_by
        return sorted((Subject(context, name).qualified, version) for name, version in found)

    async def referenced_by(self, subject: Subject, spec: str, **_: Any) -> list[int]:
        self._live(subject)
        return [each.schema_id for _, each in self.catalog.referrers(subject, int(spec))]

    async def resolved_text(self, view: VersionView | SchemaView) -> str:
        return f"resolved {view.content.text}"

    async def delete_version(self, subject: Subject, spec: str, **more: Any) -> int:
        self._live(subject)
        self.by.append(more["by"])
        self._apply(VersionDeleted(subject.context, subject.name, int(spec)))
        return int(spec)

    async def delete_subject(self, subject: Subject, **more: Any) -> list[int]:
        found = [entry.version for entry in self._live(subject).live()]
        self.by.append(more["by"])
        return found

    async def restore(self, subject: Subject, spec: str, *, by: str = "") -> int:
        subject = scope.followed(self.catalog, subject)
        if self.catalog.version(subject, int(spec)) is None:
            raise errors.subject_not_found(subject.qualified)
        self.by.append(by)
        self._apply(VersionRestored(subject.context, subject.name, int(spec)))
        return int(spec)

    async def config(self, subject: Subject, *, default_to_global: bool = False) -> dict[str, Any]:
        if default_to_global:
            return scope.config_in_scope(self.catalog, subject)
        found = scope.config_at(self.catalog, subject)
        if found is None:
            raise errors.no_subject_level(subject.qualified)
        return found

    async def set_config(
        self, subject: Subject, values: dict[str, Any], *, by: str = ""
    ) -> dict[str, Any]:
        self.by.append(by)
        self._apply(ConfigSet(subject.context, subject.name, values))
        return values

    async def delete_config(self, subject: Subject, *, by: str = "") -> dict[str, Any]:
        found = scope.config_at(self.catalog, subject)
        if found is None:
            raise errors.subject_not_found(subject.qualified)
        self.by.append(by)
        self._apply(ConfigSet(subject.context, subject.name, None))
        return found

    async def mode(self, subject: Subject, *, default_to_global: bool = False) -> str:
        if default_to_global:
            return str(scope.mode_in_scope(self.catalog, subject))
        found = scope.mode_at(self.catalog, subject)
        if found is None:
            raise errors.no_subject_mode(subject.qualified)
        return str(found)

    async def set_mode(
        self, subject: Subject, mode: str, *, force: bool = False, by: str = ""
    ) -> str:
        self.by.append(by)
        self._apply(ModeSet(subject.context, subject.name, mode))
        return mode

    async def delete_mode(self, subject: Subject, *, recursive: bool = False, by: str = "") -> str:
        found = await self.mode(subject)
        self.by.append(by)
        self._apply(ModeSet(subject.context, subject.name, None))
        return found

    async def contexts(self) -> list[str]:
        return sorted(name for name, held in self.catalog.contexts.items() if held.listed)

    async def delete_context(self, name: str, *, by: str = "") -> None:
        if self.catalog.context(name).subjects:
            raise errors.context_not_empty(name)
        self.by.append(by)

    async def changes(
        self, since: int, limit: int = 1_000, wait_s: float = 0.0
    ) -> list[dict[str, Any]]:
        return [change for change in self.log if change["number"] > since][:limit]


def vars_of(record: Record) -> dict[str, Any]:
    """The fields of a record."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}
