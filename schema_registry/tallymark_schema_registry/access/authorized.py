"""The registry for one principal. Every route calls it, so that none can forget a right.

Each method names the right that it needs; those that read are in :mod:`.authorized_reading`, and
:mod:`.asking` says how what is hidden is answered.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark_schema_registry import errors
from tallymark_schema_registry.access.asking import WITHHELD
from tallymark_schema_registry.access.authorized_reading import AuthorizedReading
from tallymark_schema_registry.access.grants import Principal, Right
from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, GLOBAL, Subject
from tallymark_schema_registry.decisions.commands import Sent, VersionView
from tallymark_schema_registry.decisions.scope import Mode
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.dry_run import DryRun
from tallymark_schema_registry.node.registry import Registry

_CONFLICT: Final = 409


def authorized(registry: Registry, principal: Principal) -> Registry:
    """The registry as ``principal`` may use it: itself, where everything is allowed."""
    if principal.grants.unlimited:
        return registry
    return AuthorizedRegistry(registry, principal)


class AuthorizedRegistry(AuthorizedReading):
    """Arguments and results: see :class:`~tallymark_schema_registry.node.registry.Registry`; ``by``
    is always the principal."""

    # --- versions

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
        try:
            return await self._registry.register(
                subject,
                sent,
                normalize=normalize,
                force=force,
                by=self._principal.name,
                client=client,
            )
        except RegistryError as error:
            if error.status == _CONFLICT and not self._may_quote(subject):
                raise errors.incompatible(subject.qualified, [WITHHELD]) from None
            raise

    async def dry_run(
        self, subject: Subject, sent: Sent, *, normalize: bool = False, client: str = ""
    ) -> DryRun:
        """Needs ``write``: it tells what registering would."""
        await self._demand(Right.WRITE, subject)
        self._check_references(subject, sent.references)
        found = await self._registry.dry_run(subject, sent, normalize=normalize, client=client)
        if self._may_quote(subject):
            return found
        messages = [WITHHELD] if found.messages else []
        return DryRun(
            found.would_create,
            found.view,
            found.schema_id,
            found.version,
            found.compatible,
            messages,
            [],
        )

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
        await self._demand(Right.ADMIN, subject, alias=False)
        self._check_references(subject, content.references)
        return await self._registry.import_version(
            subject,
            version,
            schema_id,
            content,
            deleted=deleted,
            at_ms=at_ms,
            by=self._principal.name,
        )

    # --- deletion

    async def delete_version(
        self, subject: Subject, spec: str, *, permanent: bool = False, by: str = ""
    ) -> int:
        """Needs ``delete``."""

        async def ask(of: Subject) -> int:
            return await self._registry.delete_version(
                of, spec, permanent=permanent, by=self._principal.name
            )

        return await self._change(Right.DELETE, subject, ask)

    async def delete_subject(
        self, subject: Subject, *, permanent: bool = False, by: str = ""
    ) -> list[int]:
        """Needs ``delete``."""

        async def ask(of: Subject) -> list[int]:
            return await self._registry.delete_subject(
                of, permanent=permanent, by=self._principal.name
            )

        return await self._change(Right.DELETE, subject, ask)

    async def restore(self, subject: Subject, spec: str, *, by: str = "") -> int:
        """Needs ``delete``."""

        async def ask(of: Subject) -> int:
            return await self._registry.restore(of, spec, by=self._principal.name)

        return await self._change(Right.DELETE, subject, ask)

    # --- levels, modes, contexts

    async def set_config(
        self, subject: Subject, values: dict[str, Any], *, by: str = ""
    ) -> dict[str, Any]:
        """Needs ``admin``; an empty object changes nothing and asks for what is set."""
        await self._demand(Right.ADMIN if values else Right.READ, subject, alias=False)
        return await self._registry.set_config(subject, values, by=self._principal.name)

    async def delete_config(self, subject: Subject, *, by: str = "") -> dict[str, Any]:
        """Needs ``admin``."""

        async def ask(of: Subject) -> dict[str, Any]:
            return await self._registry.delete_config(of, by=self._principal.name)

        return await self._change(Right.ADMIN, subject, ask, alias=False)

    async def set_mode(
        self, subject: Subject, mode: str, *, force: bool = False, by: str = ""
    ) -> str:
        """Needs ``admin``; of everything for a mode that stops all contexts."""
        await self._demand(Right.ADMIN, subject, alias=False)
        if subject == Subject(DEFAULT_CONTEXT, "") and mode.upper() == Mode.READONLY_OVERRIDE:
            await self._demand(Right.ADMIN, GLOBAL, alias=False)
        return await self._registry.set_mode(subject, mode, force=force, by=self._principal.name)

    async def delete_mode(self, subject: Subject, *, recursive: bool = False, by: str = "") -> str:
        """Needs ``admin``; of the whole context to delete those of all its subjects."""

        async def ask(of: Subject) -> str:
            return await self._registry.delete_mode(
                of, recursive=recursive, by=self._principal.name
            )

        grants = self._principal.grants
        if recursive and not subject.name and not grants.all_of(Right.ADMIN, subject.context):
            raise errors.forbidden(self._principal.name, Right.ADMIN, f"{subject.qualified}*")
        return await self._change(Right.ADMIN, subject, ask, alias=False)

    async def delete_context(self, name: str, *, by: str = "") -> None:
        """Needs ``admin`` of the context."""
        await self._demand(Right.ADMIN, Subject(name, ""), alias=False)
        await self._registry.delete_context(name, by=self._principal.name)
