"""The parts of a node put together: how a command becomes a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from tallymark.clock import now_ms
from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.decisions.commands import (
    Answer,
    Check,
    Command,
    Compare,
    Decision,
    LookUp,
    Parse,
    Register,
    VersionView,
)
from tallymark_schema_registry.decisions.decide import decide
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.replica import Replica, Store
from tallymark_schema_registry.node.texts import Texts
from tallymark_schema_registry.node.understanding import Understanding
from tallymark_schema_registry.node.views import Views
from tallymark_schema_registry.node.workers import Workers
from tallymark_schema_registry.node.writer import Writer
from tallymark_schema_registry.store.changes import Change, StoreFailed

ATTEMPTS: Final = 50
"""How often a command is decided again because others changed what it was compared with."""
_READERS: Final = 4

Asking = Register | LookUp | Check
"""Commands that ask for what only texts show."""


class Shell:
    """Belongs to one event loop. ``threads``: how many, and their name, to where they are."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int] = now_ms,
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._store = store
        self._clock = clock
        self._readers = threads(_READERS, "registry-store")
        self._writer_thread = threads(1, "registry-writer")
        self.replica = Replica(store, self._readers)
        self.texts = Texts(self.replica, store, self._readers)
        self.views = Views(self.replica, self.texts)
        self.understanding = Understanding(self.replica, self.texts, Workers())
        self.writer = Writer(self.replica, store, self._writer_thread, decide, clock)

    @property
    def catalog(self) -> Catalog:
        """Read only, and not kept over an ``await``."""
        return self.replica.catalog

    async def start(self) -> None:
        """Load the catalog; serve from then on. Raises StoreFailed."""
        await self.replica.start()
        self.writer.start()

    async def close(self) -> None:
        """Finish what was accepted, and close the store."""
        await self.writer.close()
        await self.replica.close()
        self._readers.shutdown()
        self._writer_thread.shutdown()
        self._store.close()

    async def since(self, number: int, limit: int) -> list[Change]:
        """Changes after a number. Raises the 503 error where the store cannot be asked."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._readers, self._store.since, number, limit)
        except StoreFailed as error:
            self.replica.went_down(error)
            raise errors.store_failed() from error

    async def ask(
        self, command: Asking, client: str = "", seen: Callable[[], Catalog] | None = None
    ) -> Any:
        """The reply to a command that changes nothing, decided on all that was committed before the
        call; or on ``seen``, a part of it."""
        return (await self.decision(command, client, seen)).reply

    async def decision(
        self, command: Asking, client: str = "", seen: Callable[[], Catalog] | None = None
    ) -> Decision:
        """What the command would change; nothing is stored."""
        await self.replica.current()
        return (await self._decided(command, client, seen))[0]

    async def do(self, command: Command, client: str = "") -> Any:
        """The reply to a command, after what it changes is stored. While the store cannot be asked
        it is unknown what the command would have to change, or why it should be refused: that is
        the 503 error, but for a registration of what memory knows."""
        return (await self._do(command, client))[0]

    async def register(self, command: Register, client: str = "") -> VersionView:
        """The version, with the text that was sent if it was permanently deleted since: it was
        registered."""
        found, done = await self._do(command, client)
        assert isinstance(done, Register)
        # What is imported and not AVRO is not parsed: it is kept as it was sent.
        text = done.parsed.text if done.parsed else done.sent.text or ""
        return await self.views.of_reply(found, text)

    async def _do(self, command: Command, client: str) -> tuple[Any, Command]:
        await self.replica.current()
        is_known = not self.replica.is_down
        if not isinstance(command, Register):
            self.replica.check_up()
        for _ in range(ATTEMPTS):
            try:
                decision, command = await self._decided(command, client)
            except RegistryError:
                if is_known:
                    raise
                raise errors.store_failed() from None
            if not decision.records:
                return decision.reply, command
            written = await self.writer.write(command)
            if isinstance(written, Decision):
                self._keep(written, command)
                return written.reply, command
        raise errors.busy("others change the subject all the time")

    async def _decided(
        self, command: Command, client: str, seen: Callable[[], Catalog] | None = None
    ) -> tuple[Decision, Command]:
        """The decision on the catalog as it is, and the command with what was found out for it."""
        for _ in range(ATTEMPTS):
            catalog = seen() if seen else self.catalog
            answer: Answer = decide(catalog, command, self._clock())
            if isinstance(answer, Decision):
                return answer, command
            command = await self._found_out(command, answer, client)
        raise errors.busy("others change the subject all the time")

    async def _found_out(self, command: Command, question: Parse | Compare, client: str) -> Command:
        assert isinstance(command, Register | LookUp | Check), command
        if isinstance(question, Parse):
            return replace(command, parsed=await self.understanding.parse(question, client))
        assert command.parsed is not None
        every = isinstance(command, Check)
        checked = await self.understanding.compare(question, command.parsed, client, every=every)
        return replace(command, checked=checked)

    def _keep(self, decision: Decision, command: Command) -> None:
        """What was just registered is asked for next."""
        for new in decision.contents:
            place = new.context, new.schema_id
            self.texts.keep(place, new.content.text)
            if isinstance(command, Register) and command.parsed is not None:
                self.understanding.keep(place, command.parsed.question, new.content.text)
