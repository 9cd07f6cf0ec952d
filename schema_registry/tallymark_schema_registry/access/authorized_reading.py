"""Reading by one principal: what each request shows."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tallymark_schema_registry import errors
from tallymark_schema_registry.access.asking import (
    WITHHELD,
    Asking,
    as_missing_guid,
    as_missing_id,
)
from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions.commands import SchemaView, Sent, VersionView


class AuthorizedReading(Asking):
    """The requests that change nothing. Arguments and results: see
    :class:`~tallymark_schema_registry.node.registry.Registry`."""

    async def look_up(
        self,
        subject: Subject,
        sent: Sent,
        *,
        normalize: bool = False,
        deleted: bool = False,
        client: str = "",
    ) -> VersionView:
        """Needs ``read``."""

        async def ask(of: Subject) -> VersionView:
            self._check_references(of, sent.references)
            return await self._registry.look_up(
                of, sent, normalize=normalize, deleted=deleted, client=client
            )

        return await self._read(subject, ask)

    async def check(
        self,
        subject: Subject,
        spec: str | None,
        sent: Sent,
        *,
        normalize: bool = False,
        client: str = "",
    ) -> list[str]:
        """Needs ``read``. Everything is compatible with a subject that is missing, which would be a
        lie about a hidden one: it is refused, as are those that are not there."""
        await self._demand(Right.READ, subject)
        self._check_references(subject, sent.references)
        reasons = await self._registry.check(
            subject, spec, sent, normalize=normalize, client=client
        )
        return reasons if not reasons or self._may_quote(subject) else [WITHHELD]

    def _may_quote(self, subject: Subject) -> bool:
        """Whether reasons why something is not compatible with the subject may be shown."""
        return self._visible.versions_with_references(self._target(subject))

    async def version(self, subject: Subject, spec: str, *, deleted: bool = False) -> VersionView:
        """Needs ``read``."""

        async def ask(of: Subject) -> VersionView:
            return await self._registry.version(of, spec, deleted=deleted)

        return await self._read(subject, ask)

    async def versions(
        self,
        subject: Subject,
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        deleted_as_negative: bool = False,
    ) -> list[int]:
        """Needs ``read``."""

        async def ask(of: Subject) -> list[int]:
            return await self._registry.versions(
                of,
                deleted=deleted,
                deleted_only=deleted_only,
                deleted_as_negative=deleted_as_negative,
            )

        return await self._read(subject, ask)

    async def subjects(
        self,
        prefix: str = "",
        *,
        context: str = DEFAULT_CONTEXT,
        deleted: bool = False,
        deleted_only: bool = False,
    ) -> list[str]:
        """Those that may be read."""
        found = await self._registry.subjects(
            prefix, context=context, deleted=deleted, deleted_only=deleted_only
        )
        visible = self._visible
        return [name for name in found if visible.name(name)]

    async def all_versions(
        self,
        prefix: str = "",
        *,
        latest_only: bool = False,
        deleted: bool = False,
        aliases: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[VersionView]:
        """Those that may be read; pages are counted in these."""
        found = await self._registry.all_versions(
            prefix, latest_only=latest_only, deleted=deleted, aliases=aliases
        )
        kept = [view for view in found if self._sees(view.subject)][max(0, offset) :]
        return kept[:limit] if limit > 0 else kept

    # --- by id

    async def by_id(
        self, context: str, schema_id: int, subject: Subject | None = None
    ) -> SchemaView:
        """Needs ``read`` on one of the subjects that have it."""
        hint = self._hint(subject)

        async def ask(of: int) -> SchemaView:
            return await self._registry.by_id(context, of, hint)

        if not self._hidden(context, schema_id):
            view = await ask(schema_id)
            if self._visible.schema(view.context, view.schema_id):
                return view
        return await as_missing_id(schema_id, ask)

    def _hidden(self, context: str, schema_id: int) -> bool:
        """Whether the id is known, and may not be read."""
        visible = self._visible
        known = visible.catalog.schema(context, schema_id) is not None
        return known and not visible.schema(context, schema_id)

    async def by_guid(self, guid: str) -> SchemaView:
        """Needs ``read`` on one of the subjects that have it."""
        visible = [place for place in await self._registry.ids_of_guid(guid) if self._shows(place)]
        if not visible:
            return await as_missing_guid(guid, self._registry.by_guid)
        return await self._registry.by_id(*visible[0])

    async def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Those that may be read."""
        found = await self._registry.ids_of_guid(guid)
        visible = [place for place in found if self._shows(place)]
        if found and not visible:
            return await as_missing_guid(guid, self._registry.ids_of_guid)
        return visible

    def _shows(self, place: tuple[str, int]) -> bool:
        return self._visible.schema(*place)

    async def max_id(self, context: str) -> int:
        """The highest one that may be read."""
        await self._registry.max_id(context)
        return self._visible.highest_id(context)

    async def uses(
        self,
        context: str,
        schema_id: int,
        *,
        subject: Subject | None = None,
        deleted: bool = False,
    ) -> list[tuple[str, int]]:
        """Those by subjects that may be read."""
        hint = self._hint(subject)

        async def ask(of: int) -> list[tuple[str, int]]:
            return await self._registry.uses(context, of, subject=hint, deleted=deleted)

        if not self._hidden(context, schema_id):
            found = await ask(schema_id)
            visible = self._visible
            if visible.schema(context, schema_id):
                return [use for use in found if visible.name(use[0])]
        return await as_missing_id(schema_id, ask)

    async def referenced_by(
        self, subject: Subject, spec: str, *, deleted: bool = False
    ) -> list[int]:
        """Needs ``read``; the ids that may be read."""

        async def ask(of: Subject) -> list[int]:
            found = await self._registry.referenced_by(of, spec, deleted=deleted)
            return [each for each in found if each in self._referring(of, deleted)]

        return await self._read(subject, ask)

    def _referring(self, subject: Subject, deleted: bool) -> set[int]:
        """Ids that may be read, of schemas that refer to a version of the subject."""
        visible = self._visible
        target = self._target(subject)
        found = visible.catalog.subject(target)
        return {
            schema.schema_id
            for version in (found.versions if found else ())
            for context, schema in visible.catalog.referrers(target, version)
            if (
                visible.schema(context, schema.schema_id)
                if deleted
                else visible.live_schema(context, schema)
            )
        }

    async def resolved_text(self, view: VersionView | SchemaView) -> str:
        """Needs ``read`` on what is written out."""
        context = view.context if isinstance(view, SchemaView) else view.subject.context
        if not self._visible.reached(context, view.content.references):
            raise errors.forbidden(self._principal.name, Right.READ, "what the schema refers to")
        return await self._registry.resolved_text(view)

    # --- what is set, contexts, changes

    async def config(self, subject: Subject, *, default_to_global: bool = False) -> dict[str, Any]:
        """Needs ``read``."""

        async def ask(of: Subject) -> dict[str, Any]:
            return await self._registry.config(of, default_to_global=default_to_global)

        return await self._read(subject, ask, alias=False)

    async def mode(self, subject: Subject, *, default_to_global: bool = False) -> str:
        """Needs ``read``."""

        async def ask(of: Subject) -> str:
            return await self._registry.mode(of, default_to_global=default_to_global)

        return await self._read(subject, ask, alias=False)

    async def contexts(self) -> list[str]:
        """Those in which something may be read, and the default one."""
        found = await self._registry.contexts()
        return [name for name in found if self._visible.context(name)]

    async def changes(
        self, since: int, limit: int = 1_000, wait_s: float = 0.0
    ) -> list[dict[str, Any]]:
        """Those that may be read. Numbers of others are left out: that something changed is seen,
        and nothing else of it."""
        end = time.monotonic() + wait_s
        while True:
            left = max(0.0, end - time.monotonic())
            found = await self._registry.changes(since, limit, left)
            visible = [change for change in found if self._visible.change(change)]
            if visible or not found:
                return visible
            since = int(found[-1]["number"])
            await asyncio.sleep(0)
