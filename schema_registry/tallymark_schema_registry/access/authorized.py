"""The registry for one principal. Every route calls it, so that none can forget a right.

*Reading* is what the registry does, on the part of the catalog that the principal may read: what is
hidden is answered as what is not there, by the same way.

*Changing* needs a right on the name in the request and, where that is an alias, on the subject that
is meant. A change of something that has to be there (a deletion) is answered as missing where it is
hidden, and refused (40301) where only the right is lacking. What can also create (a registration, a
level) is refused in both cases: rights are given by name, so that reveals nothing of what is there.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from tallymark_schema_registry import errors
from tallymark_schema_registry.access.grants import Principal, Right
from tallymark_schema_registry.access.rights_asked import RightsAsked
from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, GLOBAL, Subject
from tallymark_schema_registry.decisions.commands import (
    CheckReport,
    DeleteConfig,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    RestoreVersion,
    SchemaView,
    Sent,
    VersionView,
)
from tallymark_schema_registry.decisions.scope import Mode
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.dry_run import DryRun
from tallymark_schema_registry.node.registry import Registry

Reply = TypeVar("Reply")

ON_VISIBLE: Final = frozenset(
    {"version", "versions", "subjects", "all_versions", "by_id", "by_guid", "ids_of_guid"}
    | {"uses", "referenced_by", "config", "mode", "look_up"}
)
"""Methods of the registry that only read the catalog, and so need no rule but that it is the
visible one."""
WITHHELD: Final = "the reasons quote schemas that may not be read, so they are not shown"
_CONFLICT: Final = 409


def authorized(registry: Registry, principal: Principal) -> Registry:
    """The registry as ``principal`` may use it: itself, where everything is allowed."""
    if principal.grants.unlimited:
        return registry
    return AuthorizedRegistry(registry, principal)


class AuthorizedRegistry(RightsAsked):
    """Arguments and results: see :class:`~tallymark_schema_registry.node.registry.Registry`; ``by``
    is always the principal."""

    async def ping(self) -> None:
        """Needs nothing."""
        await self._whole.ping()

    # --- reading, where the catalog is not all that is read

    async def check(
        self,
        subject: Subject,
        spec: str | None,
        sent: Sent,
        *,
        normalize: bool = False,
        client: str = "",
    ) -> list[str]:
        """Needs ``read``. Everything is compatible with a subject that is missing; to say that of a
        hidden one would be a lie, so it is refused, as are those that are not there."""
        await self._demand(Right.READ, subject)
        reasons = await super().check(subject, spec, sent, normalize=normalize, client=client)
        return reasons if not reasons or self._may_quote(subject) else [WITHHELD]

    async def report(
        self,
        subject: Subject,
        spec: str | None,
        sent: Sent,
        *,
        normalize: bool = False,
        client: str = "",
    ) -> CheckReport:
        """As :meth:`check`."""
        await self._demand(Right.READ, subject)
        found = await super().report(subject, spec, sent, normalize=normalize, client=client)
        if self._may_quote(subject):
            return found
        return CheckReport(*([WITHHELD] if part else [] for part in found))

    async def max_id(self, context: str) -> int:
        """The highest one that may be read."""
        await self.replica.current()
        return self.catalog.highest_id(context)

    async def resolved_text(self, view: VersionView | SchemaView) -> str:
        """Needs ``read`` on what is written out."""
        context = view.context if isinstance(view, SchemaView) else view.subject.context
        if not self.catalog.resolves(context, view.schema_id):
            raise errors.forbidden(self.principal.name, Right.READ, "what the schema refers to")
        return await self._whole.resolved_text(view)

    async def contexts(self) -> list[str]:
        """Those in which something may be read, and the default one."""
        found = await super().contexts()
        return [name for name in found if self.catalog.lists(name)]

    async def changes(
        self, since: int, limit: int = 1_000, wait_s: float = 0.0
    ) -> list[dict[str, Any]]:
        """Those that may be read. Numbers of others are left out: that something changed is seen,
        and nothing else of it."""
        end = time.monotonic() + wait_s
        while True:
            left = max(0.0, end - time.monotonic())
            found = await self._whole.changes(since, limit, left)
            catalog = self.catalog
            visible = [change for change in found if catalog.shows(change)]
            if visible or not found:
                return visible
            since = int(found[-1]["number"])
            await asyncio.sleep(0)

    # --- registering

    async def register(
        self,
        subject: Subject,
        sent: Sent,
        *,
        normalize: bool = False,
        force: bool = False,
        by: str = "",
        client: str = "",
    ) -> VersionView:
        """Needs ``write``; ``admin`` with ``force``, which goes around the level that only an admin
        may set."""
        await self._demand(Right.ADMIN if force else Right.WRITE, subject)
        self._check_references(subject, sent.references)
        name = self.principal.name
        try:
            return await self._whole.register(
                subject, sent, normalize=normalize, force=force, by=name, client=client
            )
        except RegistryError as error:
            if error.status == _CONFLICT and not self._may_quote(subject):
                raise errors.incompatible(subject.qualified, [WITHHELD]) from None
            raise

    async def dry_run(
        self, subject: Subject, sent: Sent, *, normalize: bool = False, client: str = ""
    ) -> DryRun:
        """Needs ``write``: it shows what registering would do."""
        await self._demand(Right.WRITE, subject)
        self._check_references(subject, sent.references)
        found = await self._whole.dry_run(subject, sent, normalize=normalize, client=client)
        if self._may_quote(subject):
            return found
        messages = [WITHHELD] if found.messages else []
        return replace(found, messages=messages, warnings=[], diff=[])

    async def import_version(
        self,
        subject: Subject,
        version: int,
        schema_id: int,
        content: Content,
        *,
        deleted: bool = False,
        at_ms: int = 0,
        by: str = "",
    ) -> VersionView:
        """Needs ``admin``."""
        await self._demand(Right.ADMIN, subject)
        self._check_references(subject, content.references)
        name = self.principal.name
        return await self._whole.import_version(
            subject, version, schema_id, content, deleted=deleted, at_ms=at_ms, by=name
        )

    # --- deletion

    async def delete_version(
        self, subject: Subject, spec: str, *, permanent: bool = False, by: str = ""
    ) -> int:
        """Needs ``delete``."""
        name = self.principal.name
        return await self._change(
            Right.DELETE,
            DeleteVersion(subject, spec, permanent, name),
            lambda: self._whole.delete_version(subject, spec, permanent=permanent, by=name),
        )

    async def delete_subject(
        self, subject: Subject, *, permanent: bool = False, by: str = ""
    ) -> list[int]:
        """Needs ``delete``."""
        name = self.principal.name
        return await self._change(
            Right.DELETE,
            DeleteSubject(subject, permanent, name),
            lambda: self._whole.delete_subject(subject, permanent=permanent, by=name),
        )

    async def restore(self, subject: Subject, spec: str, *, by: str = "") -> int:
        """Needs ``delete``."""
        name = self.principal.name
        return await self._change(
            Right.DELETE,
            RestoreVersion(subject, spec, name),
            lambda: self._whole.restore(subject, spec, by=name),
        )

    # --- levels, modes, contexts

    async def set_config(
        self, subject: Subject, values: dict[str, Any], *, by: str = ""
    ) -> dict[str, Any]:
        """Needs ``admin``; without values nothing changes, and ``read`` is enough."""
        await self._demand(Right.ADMIN if values else Right.READ, subject, alias=False)
        return await self._whole.set_config(subject, values, by=self.principal.name)

    async def delete_config(self, subject: Subject, *, by: str = "") -> dict[str, Any]:
        """Needs ``admin``."""
        name = self.principal.name
        return await self._change(
            Right.ADMIN,
            DeleteConfig(subject, name),
            lambda: self._whole.delete_config(subject, by=name),
            alias=False,
        )

    async def set_mode(
        self, subject: Subject, mode: str, *, force: bool = False, by: str = ""
    ) -> str:
        """Needs ``admin``; of everything for a mode that stops all contexts."""
        await self._demand(Right.ADMIN, subject, alias=False)
        if subject == Subject(DEFAULT_CONTEXT, "") and mode.upper() == Mode.READONLY_OVERRIDE:
            await self._demand(Right.ADMIN, GLOBAL, alias=False)
        return await self._whole.set_mode(subject, mode, force=force, by=self.principal.name)

    async def delete_mode(self, subject: Subject, *, recursive: bool = False, by: str = "") -> str:
        """Needs ``admin``; of the whole context to delete those of all its subjects."""
        name, grants = self.principal.name, self.principal.grants
        if recursive and not subject.name and not grants.all_of(Right.ADMIN, subject.context):
            raise errors.forbidden(name, Right.ADMIN, f"{subject.qualified}*")
        return await self._change(
            Right.ADMIN,
            DeleteMode(subject, recursive, name),
            lambda: self._whole.delete_mode(subject, recursive=recursive, by=name),
            alias=False,
        )

    async def delete_context(self, name: str, *, by: str = "") -> None:
        """Needs ``admin`` of the context."""
        await self._demand(Right.ADMIN, Subject(name, ""), alias=False)
        await self._whole.delete_context(name, by=self.principal.name)


def _refused(name: str) -> Callable[..., Awaitable[Any]]:
    async def refused(self: AuthorizedRegistry, *_: Any, **__: Any) -> Any:
        raise errors.forbidden(self.principal.name, "ask for", name)

    return refused


WITHOUT_RULE: Final = [
    name
    for name, _ in inspect.getmembers(Registry, callable)
    if not name.startswith("_") and name not in {*vars(AuthorizedRegistry), *ON_VISIBLE}
]
"""The public methods of the registry that nothing here says anything about: for the process that
runs it, or forgotten. They are refused."""
for _name in WITHOUT_RULE:
    setattr(AuthorizedRegistry, _name, _refused(_name))
