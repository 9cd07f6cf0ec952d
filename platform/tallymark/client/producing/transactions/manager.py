"""Does what the machine of a transactional producer decides: asks its coordinator, holds and
releases batches. Lives in the I/O thread; :meth:`TransactionManager.sending` is for any thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from tallymark.client.core import supervised
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.client.producing.sending.producer_ids import ProducerIds
from tallymark.client.producing.sending.sender import Sender
from tallymark.client.producing.settings import ProducerSettings
from tallymark.client.producing.transactions.machine import Phase, Place, TransactionMachine
from tallymark.client.producing.transactions.pipeline import TransactionalPipeline
from tallymark.client.producing.transactions.questions import (
    EXPLICIT,
    IMPLICIT,
    TransactionQuestions,
)
from tallymark.errors import (
    CODES,
    AuthenticationError,
    CommitInDoubt,
    KafkaError,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
)
from tallymark.protocol.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")
log: Final = logging.getLogger(__name__)
_BUSY: Final = CODES["CONCURRENT_TRANSACTIONS"]
_BUSY_PAUSE: Final = 0.02
"""Seconds: the transaction before is just being ended in its partitions."""
_FOREVER: Final = 1e9


class _SharedIds(ProducerIds):
    """The one identity of a transactional producer: nothing of the sender asks for another."""

    def request(self) -> None:
        pass


class TransactionManager:
    """See the module. Times in seconds. Every call waits for the one before."""

    def __init__(
        self, cluster: Cluster, sender: Sender, transactional_id: str, settings: ProducerSettings
    ) -> None:
        self.machine = TransactionMachine(transactional_id)
        self._id = transactional_id
        self._sender = sender
        self._ask = TransactionQuestions(cluster, transactional_id, settings.transaction_timeout_ms)
        self._backoff = settings.retry_backoff_ms / 1000
        self._max_in_flight = settings.max_in_flight
        self._ids = _SharedIds(cluster, self._backoff, lambda: None)
        self._one_call = asyncio.Lock()
        self._adding: asyncio.Task[None] | None = None
        self._sending = 0
        self._count_lock = threading.Lock()
        sender.take_ids(self._ids, self._lost)

    def pipeline(self, place: Place) -> TransactionalPipeline:
        """For the batches of a partition."""
        return TransactionalPipeline(self._max_in_flight, partial(self.may_send, place))

    @contextlib.contextmanager
    def sending(self, call: str) -> Iterator[None]:
        """A thread puts records in: an end of the transaction waits until it has. Raises what
        :meth:`TransactionMachine.check_send` does."""
        with self._count_lock:
            self._sending += 1
        try:
            self.machine.check_send(call)  # after it is counted: an end that begins now waits
            yield
        finally:
            with self._count_lock:
                self._sending -= 1

    # -- the calls ----------------------------------------------------------------------------

    async def initialise(self, timeout: float) -> None:
        """Get a producer id, and fence the last producer of the transactional id.
        TimedOutError: call again."""
        async with self._one_call:
            self.machine.initialise()
            deadline = _deadline(timeout)
            level = await self._until(
                deadline, "init_transactions()", self._ask.level, self.machine.id_failed_again
            )
            level = level or 0
            self._ask.highest = IMPLICIT if level >= 2 else EXPLICIT
            self._sender.bound_version(self._ask.highest["produce"])
            identity = await self._new_identity(NO_IDENTITY, deadline, "init_transactions()")
            self.machine.initialised(identity, level >= 2)
            self._ids.newest = identity

    async def begin(self, timeout: float) -> None:
        """Begin a transaction, under a new epoch where that is needed."""
        async with self._one_call:
            machine = self.machine
            machine.check_begin()
            if machine.must_renew:
                machine.renewed(
                    await self._new_identity(
                        machine.identity, _deadline(timeout), "begin_transaction()"
                    )
                )
                self._ids.newest = machine.identity
            machine.begin()
            self._sender.transaction_is(TransactionStage.OPEN)

    async def send_offsets(
        self, positions: Mapping[Place, int], group: GroupMetadata, timeout: float
    ) -> None:
        """Have the offsets committed with the transaction."""
        async with self._one_call:
            machine, call = self.machine, "send_offsets_to_transaction()"
            machine.check_send(call)
            if not positions:
                return
            deadline = _deadline(timeout)
            if not machine.implicit:
                join = partial(self._ask.add_offsets, machine.identity, group.group_id, deadline)
                await self._until(deadline, call, join, machine.add_failed)
                machine.check_send(call)
                machine.offsets_added()
            machine.offsets_asked()
            commit = partial(self._ask.commit_offsets, machine.identity, positions, group, deadline)
            await self._until(deadline, call, commit, machine.offsets_failed)
            self._drop_rest()
            machine.check_send(call)

    async def commit(self, timeout: float) -> None:
        """Deliver everything and commit."""
        async with self._one_call:
            self.machine.commit()
            deadline = _deadline(timeout)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._all_in()
                    await self._sender.flush()
            except TimeoutError:
                self.machine.not_delivered()
                raise TimedOutError(
                    f"commit_transaction(): the records were not delivered within {timeout:g} s; "
                    "the transaction is still open: commit it again, or abort it"
                ) from None
            except asyncio.CancelledError:
                self.machine.not_delivered()
                raise
            try:
                await self._end(deadline)
            except TimedOutError as error:
                raise CommitInDoubt(self._id, str(error)) from None

    async def abort(self, timeout: float) -> None:
        """Drop what has not left and abort."""
        async with self._one_call:
            self.machine.abort()
            if self._adding is not None:
                self._adding.cancel()
                await asyncio.gather(self._adding, return_exceptions=True)
            await self._all_in()
            dropped = TransactionAbortableError(
                self._id, "the transaction was aborted before they left"
            )
            self._sender.give_up(dropped, only_transactional=True)
            await self._end(_deadline(timeout))

    async def close(self, timeout: float) -> None:
        """Abort what is open, since nothing can commit it any more."""
        if self.machine.phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE, Phase.ABORTING):
            try:
                await self.abort(timeout)
            except TallymarkError as error:
                log.warning("the open transaction of %s was not aborted: %s", self._id, error)
        elif self._adding is not None:
            self._adding.cancel()

    # -- questions ----------------------------------------------------------------------------

    async def _end(self, deadline: float) -> None:
        machine, commits = self.machine, self.machine.commits
        if machine.end_wanted():
            if commits:  # noted before the question leaves: a death after it leaves it unknown
                self._sender.transaction_is(TransactionStage.ENDING)
            call = "commit_transaction()" if commits else "abort_transaction()"
            ask = partial(self._ask.end, machine.identity, commits, deadline)
            try:
                following = await self._until(deadline, call, ask, machine.end_failed)
            except TallymarkError:
                self._drop_rest()
                raise
            if following is not None:
                machine.ended(following)
                self._ids.newest = machine.identity
        self._sender.transaction_is(
            TransactionStage.COMMITTED if commits else TransactionStage.ABORTED
        )

    async def _new_identity(self, held: Identity, deadline: float, call: str) -> Identity:
        ask = partial(self._ask.identity, held, deadline)
        identity = await self._until(deadline, call, ask, self.machine.id_failed_again)
        assert identity is not None, "id_failed_again() asks again or raises"
        return identity

    async def _until(
        self,
        deadline: float,
        call: str,
        ask: Callable[[], Coroutine[Any, Any, T]],
        again: Callable[[TallymarkError], bool],
    ) -> T | None:
        """Ask until it is answered; None: ``again`` says that this is the end of it. TimedOutError
        with the last reason."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await ask()
            except AuthenticationError:
                raise
            except TallymarkError as error:
                self._ask.failed(error)
                if not again(error):
                    self._drop_rest()
                    return None
                busy = isinstance(error, KafkaError) and error.code == _BUSY
                reason = error
            except asyncio.CancelledError:
                again(KafkaError(CODES["NETWORK_EXCEPTION"], call))
                raise
            pause = _BUSY_PAUSE if busy else self._backoff
            if loop.time() + pause >= deadline:
                raise TimedOutError(f"{call} was not answered in time: {reason}") from None
            await asyncio.sleep(pause)

    # -- batches ------------------------------------------------------------------------------

    def may_send(self, place: Place) -> bool:
        """Whether a batch of this partition may leave now. Where not, it is being added."""
        if self.machine.may_send(place):
            return True
        if self.machine.wanted and (self._adding is None or self._adding.done()):
            self._adding = supervised.start(self._add(), "adding partitions to a transaction")
        return False

    async def _add(self) -> None:
        """Add the partitions that are wanted, until none is."""
        await asyncio.sleep(0)  # the pump may name more of them
        while self.machine.wanted:
            places = set(self.machine.wanted)

            deadline = _deadline(_FOREVER)
            ask = partial(self._ask.add_partitions, self.machine.identity, places, deadline)
            added = await self._until(deadline, "send()", ask, self._adds_again)
            if not added:
                return
            self.machine.partitions_added(places)
            self._sender.pump()

    def _adds_again(self, error: TallymarkError) -> bool:
        open_ones = (Phase.IN_TRANSACTION, Phase.COMMITTING)
        return self.machine.add_failed(error) and self.machine.phase in open_ones

    def _lost(self, error: TallymarkError) -> None:
        self.machine.batch_lost(error)
        asyncio.get_running_loop().call_soon(self._drop_rest)

    def _drop_rest(self) -> None:
        """Where the transaction cannot be committed, nothing more of it needs to be sent. Where
        nothing more can be asked, its coordinator aborts it, unless a commit was asked for."""
        if self.machine.phase in (Phase.ABORTABLE, Phase.FATAL):
            lost = TransactionAbortableError(self._id, "other records of the transaction were lost")
            self._sender.give_up(lost, only_transactional=True)
        if self.machine.phase is Phase.FATAL:
            in_doubt = self.machine.in_doubt
            self._sender.transaction_is(
                TransactionStage.IN_DOUBT if in_doubt else TransactionStage.ABORTED
            )

    async def _all_in(self) -> None:
        """Wait for threads that are just putting records in."""
        while self._sending:
            await asyncio.sleep(0.001)


def _deadline(timeout: float) -> float:
    return asyncio.get_running_loop().time() + timeout
