"""The calls of a transactional producer, for coroutines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.producing.core import ProducerCore
from tallymark.client.producing.transaction_calls import as_group, call_seconds, manager_of
from tallymark.errors import CommitInDoubt, TallymarkError

log: Final = logging.getLogger(__name__)


class AsyncTransactionCalls:
    """See :class:`~tallymark.client.producing.transaction_calls.TransactionCalls`, whose calls and
    errors these are. A call that is cancelled may have been done; calling it again is safe."""

    if TYPE_CHECKING:

        def _live(self) -> ProducerCore: ...

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Take the transactional id, and fence the last producer that had it."""
        core = self._live()
        work = manager_of(core).initialise(call_seconds(core, timeout))
        await asyncio.wrap_future(core.io.submit(work))

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        core = self._live()
        work = manager_of(core).begin(call_seconds(core, None))
        await asyncio.wrap_future(core.io.submit(work))

    async def send_offsets_to_transaction(
        self,
        positions: Mapping[tuple[str, int], int],
        group: str | GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Have the next offsets to read of ``group`` committed with the transaction."""
        core = self._live()
        seconds = call_seconds(core, timeout)
        work = manager_of(core).send_offsets(dict(positions), as_group(group), seconds)
        await asyncio.wrap_future(core.io.submit(work))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver everything and commit. Returns when it is decided."""
        core = self._live()
        work = manager_of(core).commit(call_seconds(core, timeout))
        await asyncio.wrap_future(core.io.submit(work))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort. Records that have not left are dropped, and their Delivery says so."""
        core = self._live()
        work = manager_of(core).abort(call_seconds(core, timeout))
        await asyncio.wrap_future(core.io.submit(work))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """``async with producer.transaction():`` commits, and aborts on an exception."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except CommitInDoubt:
            raise
        except BaseException:
            try:
                await self.abort_transaction()
            except TallymarkError as error:  # the first error is the one to be seen
                log.error("the transaction was not aborted: %s", error)
            raise
