"""What the registry does, without HTTP: the methods that routes, imports and exports call.

All are coroutines of one event loop. They raise RegistryError, whose status and code are answered.
"""

from __future__ import annotations

from typing import Any

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions.commands import SchemaView, Sent, VersionView
from tallymark_schema_registry.node.dry_run import DryRun


class Registry:
    """The registry over one store."""

    catalog: Catalog
    """Read only, on the event loop."""

    async def start(self) -> None:
        """Load the catalog. UserError where the store cannot be read."""
        raise NotImplementedError

    async def close(self) -> None:
        """Finish what was accepted. Idempotent."""
        raise NotImplementedError

    async def ping(self) -> None:
        """Raises the 50001 error where the store cannot be asked."""
        raise NotImplementedError

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
        """The version that has the schema; a new one where there was none. ``client``: who waits
        (an address), so that one cannot take all places where large schemas wait."""
        raise NotImplementedError

    async def dry_run(
        self, subject: Subject, sent: Sent, *, normalize: bool = False, client: str = ""
    ) -> DryRun:
        """What :meth:`register` would do. Changes nothing."""
        raise NotImplementedError

    async def look_up(
        self,
        subject: Subject,
        sent: Sent,
        *,
        normalize: bool = False,
        deleted: bool = False,
        client: str = "",
    ) -> VersionView:
        """The version under which the subject has this schema."""
        raise NotImplementedError

    async def check(
        self,
        subject: Subject,
        spec: str | None,
        sent: Sent,
        *,
        normalize: bool = False,
        client: str = "",
    ) -> list[str]:
        """Why the schema could not be registered; empty: it could. ``spec`` None: against all
        versions that the subject's level names."""
        raise NotImplementedError

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
        """Take a version as another registry has it, whatever the mode."""
        raise NotImplementedError

    async def version(self, subject: Subject, spec: str, *, deleted: bool = False) -> VersionView:
        """``spec``: a number, "latest" or "-1"."""
        raise NotImplementedError

    async def versions(
        self,
        subject: Subject,
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        deleted_as_negative: bool = False,
    ) -> list[int]:
        """The numbers, ascending."""
        raise NotImplementedError

    async def subjects(
        self,
        prefix: str = "",
        *,
        context: str = DEFAULT_CONTEXT,
        deleted: bool = False,
        deleted_only: bool = False,
    ) -> list[str]:
        """Qualified names, sorted."""
        raise NotImplementedError

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
        """All versions of all subjects, by subject and number. ``limit`` 0 and below: all."""
        raise NotImplementedError

    # --- by id

    async def by_id(
        self, context: str, schema_id: int, subject: Subject | None = None
    ) -> SchemaView:
        """``subject`` is a hint of the client: where the id was registered."""
        raise NotImplementedError

    async def by_guid(self, guid: str) -> SchemaView:
        """The schema with this guid, in any context."""
        raise NotImplementedError

    async def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """(context, id) of every schema with this guid."""
        raise NotImplementedError

    async def max_id(self, context: str) -> int:
        """The highest id ever given in the context."""
        raise NotImplementedError

    async def uses(
        self,
        context: str,
        schema_id: int,
        *,
        subject: Subject | None = None,
        deleted: bool = False,
    ) -> list[tuple[str, int]]:
        """(qualified subject, version) of every version that has the schema."""
        raise NotImplementedError

    async def referenced_by(
        self, subject: Subject, spec: str, *, deleted: bool = False
    ) -> list[int]:
        """Ids of the schemas that refer to this version."""
        raise NotImplementedError

    async def resolved_text(self, view: VersionView | SchemaView) -> str:
        """The text with the types of all references written out."""
        raise NotImplementedError

    # --- deletion

    async def delete_version(
        self, subject: Subject, spec: str, *, permanent: bool = False, by: str = ""
    ) -> int:
        """The number of the version that was deleted."""
        raise NotImplementedError

    async def delete_subject(
        self, subject: Subject, *, permanent: bool = False, by: str = ""
    ) -> list[int]:
        """The numbers of the versions that were deleted."""
        raise NotImplementedError

    async def restore(self, subject: Subject, spec: str, *, by: str = "") -> int:
        """The number of the version that is no longer deleted."""
        raise NotImplementedError

    # --- config, modes, contexts. Subject(context, "") is the context's own

    async def config(self, subject: Subject, *, default_to_global: bool = False) -> dict[str, Any]:
        """What is set, or with ``default_to_global`` what is in force."""
        raise NotImplementedError

    async def set_config(
        self, subject: Subject, values: dict[str, Any], *, by: str = ""
    ) -> dict[str, Any]:
        """The object to answer."""
        raise NotImplementedError

    async def delete_config(self, subject: Subject, *, by: str = "") -> dict[str, Any]:
        """What was set."""
        raise NotImplementedError

    async def mode(self, subject: Subject, *, default_to_global: bool = False) -> str:
        """What is set, or with ``default_to_global`` what is in force."""
        raise NotImplementedError

    async def set_mode(
        self, subject: Subject, mode: str, *, force: bool = False, by: str = ""
    ) -> str:
        """The mode as it is stored. When it returns, it is in force in all processes."""
        raise NotImplementedError

    async def delete_mode(self, subject: Subject, *, recursive: bool = False, by: str = "") -> str:
        """The mode that was set."""
        raise NotImplementedError

    async def contexts(self) -> list[str]:
        """Those that are listed, sorted."""
        raise NotImplementedError

    async def delete_context(self, name: str, *, by: str = "") -> None:
        """It is not listed any more."""
        raise NotImplementedError

    # --- changes

    async def changes(
        self, since: int, limit: int = 1_000, wait_s: float = 0.0
    ) -> list[dict[str, Any]]:
        """The changes after number ``since``, each with ``number``, ``at_ms``, ``by`` and what the
        record says. Where there is none, the first one is waited for, ``wait_s`` at most."""
        raise NotImplementedError
