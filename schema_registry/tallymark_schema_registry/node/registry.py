"""What the registry does, without HTTP: the methods that routes, imports and exports call.

All are coroutines of one event loop. They raise RegistryError, whose status and code are answered.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from tallymark.clock import now_ms
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Content
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, Subject
from tallymark_schema_registry.decisions import by_id, configuring, lists, modes
from tallymark_schema_registry.decisions.commands import (
    Check,
    CheckReport,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    Register,
    RestoreVersion,
    SchemaView,
    Sent,
    SetConfig,
    SetMode,
    VersionView,
)
from tallymark_schema_registry.node.dry_run import DryRun, dry_run
from tallymark_schema_registry.node.feed import Feed
from tallymark_schema_registry.node.replica import Listener, Store
from tallymark_schema_registry.node.shell import Asking, Shell


class Registry:
    """The registry over one store, which it closes. Reads give what was committed by any process
    before the call; :meth:`by_id` alone may give what was permanently deleted a moment ago."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int] = now_ms,
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._shell = Shell(store, clock, threads)
        self.catalog: Catalog = self._shell.catalog
        """Read only, on the event loop, and not kept over an ``await``."""
        self.replica = self._shell.replica
        """For answers that are remembered: whether they are current, and what changed."""
        self._feed = Feed(self._shell)
        self._is_closed = False

    @property
    def store_is_down(self) -> bool:
        """Whether the store could not be asked the last time."""
        return self.replica.is_down

    @property
    def writes_waiting(self) -> int:
        """Changes that wait to be stored."""
        return self._shell.writer.waiting

    def on_change(self, listener: Listener) -> None:
        """``listener`` gets the changes of all processes, each once and in order, right after they
        were applied to the catalog and before anything is answered by them."""
        self.replica.on_change(listener)

    async def start(self) -> None:
        """Load the catalog. UserError where the store cannot be read."""
        await self._shell.start()
        self.catalog = self._shell.catalog

    async def close(self) -> None:
        """Finish what was accepted. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._feed.close()
            await self._shell.close()

    async def ping(self) -> None:
        """Raises the 50001 error where the store cannot be asked."""
        await self.replica.current()
        self.replica.check_up()

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
        """The version that has the schema; a new one where there was none. ``client``: the address
        of the client that waits, so that one cannot take all places where large schemas wait."""
        return await self._shell.register(Register(subject, sent, normalize, force, by), client)

    async def dry_run(
        self, subject: Subject, sent: Sent, *, normalize: bool = False, client: str = ""
    ) -> DryRun:
        """What :meth:`register` would do. Changes nothing."""
        return await dry_run(self._shell, Register(subject, sent, normalize), client)

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
        command = LookUp(subject, sent, normalize, deleted)
        return await self._shell.views.of_reply(await self._ask(command, client))

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
        found: list[str] = await self._ask(Check(subject, spec, sent, normalize), client)
        return found

    async def report(
        self,
        subject: Subject,
        spec: str | None,
        sent: Sent,
        *,
        normalize: bool = False,
        client: str = "",
    ) -> CheckReport:
        """As :meth:`check`, with what does not stop it and may be a mistake."""
        check = Check(subject, spec, sent, normalize, report=True)
        found: CheckReport = await self._ask(check, client)
        return found

    async def _ask(self, command: Asking, client: str) -> Any:
        """The reply, decided on :attr:`catalog`: for a principal with few rights a part of it."""
        return await self._shell.ask(command, client, lambda: self.catalog)

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
        command = Import(subject, version, schema_id, content, deleted, at_ms, by)
        return await self._shell.views.of_reply(await self._shell.do(command), content.text)

    async def version(self, subject: Subject, spec: str, *, deleted: bool = False) -> VersionView:
        """``spec``: a number, "latest" or "-1"."""
        return await self._shell.views.found(
            lambda: lists.version(self.catalog, subject, spec, deleted=deleted)
        )

    async def versions(
        self,
        subject: Subject,
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        deleted_as_negative: bool = False,
    ) -> list[int]:
        """The numbers, ascending."""
        await self.replica.current()
        return lists.versions(
            self.catalog,
            subject,
            deleted=deleted,
            deleted_only=deleted_only,
            deleted_as_negative=deleted_as_negative,
        )

    async def subjects(
        self,
        prefix: str = "",
        *,
        context: str = DEFAULT_CONTEXT,
        deleted: bool = False,
        deleted_only: bool = False,
    ) -> list[str]:
        """Qualified names, sorted."""
        await self.replica.current()
        return lists.subjects(
            self.catalog, prefix, context=context, deleted=deleted, deleted_only=deleted_only
        )

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
        await self.replica.current()
        found = lists.all_versions(
            self.catalog, prefix, latest_only=latest_only, deleted=deleted, aliases=aliases
        )
        return await self._shell.views.of_all(lists.page(found, offset, limit))

    # --- by id

    async def by_id(
        self, context: str, schema_id: int, subject: Subject | None = None
    ) -> SchemaView:
        """``subject`` is a hint of the client: where the id was registered."""
        where = subject or Subject(context, "")
        return await self._shell.views.located(lambda: by_id.by_id(self.catalog, schema_id, where))

    async def by_guid(self, guid: str) -> SchemaView:
        """The schema with this guid, in any context."""
        return await self._shell.views.located(lambda: by_id.by_guid(self.catalog, guid))

    async def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """(context, id) of every schema with this guid."""
        await self.replica.current()
        return by_id.ids_of_guid(self.catalog, guid)

    async def max_id(self, context: str) -> int:
        """The highest id ever given in the context."""
        await self.replica.current()
        return by_id.max_id(self.catalog, context)

    async def uses(
        self,
        context: str,
        schema_id: int,
        *,
        subject: Subject | None = None,
        deleted: bool = False,
    ) -> list[tuple[str, int]]:
        """(qualified subject, version) of every version that has the schema."""
        await self.replica.current()
        where = subject or Subject(context, "")
        return by_id.uses(self.catalog, schema_id, where, deleted=deleted)

    async def referenced_by(
        self, subject: Subject, spec: str, *, deleted: bool = False
    ) -> list[int]:
        """Ids of the schemas that refer to this version."""
        await self.replica.current()
        return by_id.referenced_by(self.catalog, subject, spec, deleted=deleted)

    async def resolved_text(self, view: VersionView | SchemaView) -> str:
        """The text with the types of all references written out."""
        context = view.subject.context if isinstance(view, VersionView) else view.context
        return await self._shell.understanding.written_out((context, view.schema_id))

    # --- deletion

    async def delete_version(
        self, subject: Subject, spec: str, *, permanent: bool = False, by: str = ""
    ) -> int:
        """The number of the version that was deleted."""
        number: int = await self._shell.do(DeleteVersion(subject, spec, permanent, by))
        return number

    async def delete_subject(
        self, subject: Subject, *, permanent: bool = False, by: str = ""
    ) -> list[int]:
        """The numbers of the versions that were deleted."""
        numbers: list[int] = await self._shell.do(DeleteSubject(subject, permanent, by))
        return numbers

    async def restore(self, subject: Subject, spec: str, *, by: str = "") -> int:
        """The number of the version that is no longer deleted."""
        number: int = await self._shell.do(RestoreVersion(subject, spec, by))
        return number

    # --- config, modes, contexts. Subject(context, "") is the context's own

    async def config(self, subject: Subject, *, default_to_global: bool = False) -> dict[str, Any]:
        """What is set, or with ``default_to_global`` what is in force."""
        await self.replica.current()
        return configuring.config(self.catalog, subject, default_to_global=default_to_global)

    async def set_config(
        self, subject: Subject, values: dict[str, Any], *, by: str = ""
    ) -> dict[str, Any]:
        """The object to answer."""
        answer: dict[str, Any] = await self._shell.do(SetConfig(subject, values, by))
        return answer

    async def delete_config(self, subject: Subject, *, by: str = "") -> dict[str, Any]:
        """What was set."""
        was: dict[str, Any] = await self._shell.do(DeleteConfig(subject, by))
        return was

    async def mode(self, subject: Subject, *, default_to_global: bool = False) -> str:
        """What is set, or with ``default_to_global`` what is in force."""
        await self.replica.current()
        return modes.mode(self.catalog, subject, default_to_global=default_to_global)

    async def set_mode(
        self, subject: Subject, mode: str, *, force: bool = False, by: str = ""
    ) -> str:
        """The mode as it is stored. When it returns, it is in force in all processes."""
        stored: str = await self._shell.do(SetMode(subject, mode, force, by))
        return stored

    async def delete_mode(self, subject: Subject, *, recursive: bool = False, by: str = "") -> str:
        """The mode that was set."""
        was: str = await self._shell.do(DeleteMode(subject, recursive, by))
        return was

    async def contexts(self) -> list[str]:
        """Those that are listed, sorted."""
        await self.replica.current()
        return lists.contexts(self.catalog)

    async def delete_context(self, name: str, *, by: str = "") -> None:
        """It is not listed any more."""
        await self._shell.do(DeleteContext(name, by))

    # --- changes

    async def changes(
        self, since: int, limit: int = 1_000, wait_s: float = 0.0
    ) -> list[dict[str, Any]]:
        """The changes after number ``since``, each with ``number``, ``at_ms``, ``by`` and what the
        record says. Where there is none, the first one is waited for, ``wait_s`` at most."""
        return await self._feed.after(since, limit, wait_s)
