"""In which order a copier calls its consumer and its producer, and what it does after an error.
Pure: no thread, no coroutine, no clock.

:meth:`CopyMachine.step` and :meth:`CopyMachine.run` are generators. They yield what a call of an
end (:class:`ConsumerEnd`, :class:`ProducerEnd`) returned, and go on with its result::

    a thread (copier.py)      the call has blocked, and is the result
    coroutines (aio.py)       the call is an awaitable: awaited, its result or error comes back

A step may be *cut off*: by a cancelled task, or by an interrupt while a call blocks. The call under
way may have been done or not, so the next step ends what may be open before all else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from tallymark.client import GroupMetadata, OutgoingRecord
from tallymark.client.producing.delivery import OnDelivery, RecordMetadata
from tallymark.client.reading.message import Message
from tallymark.copying.transforming import positions_after
from tallymark.errors import (
    CODES,
    BufferFullError,
    CommitFailedError,
    CommitInDoubt,
    ConnectError,
    KafkaError,
    LocalProtocolError,
    RecordDroppedError,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
    UserError,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger(__name__)
T = TypeVar("T")
Steps: TypeAlias = Generator[Any, Any, T]
"""Yields what calls return, is sent their results, and returns T."""
Taken: TypeAlias = tuple[GroupMetadata | None, Sequence[Message]]
"""Messages, and as which member they were taken; None: as a member of nothing."""
STEP_SECONDS: Final = 1.0
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_ONE_CALL: Final = 120.0
"""Seconds for the records of one transaction to be delivered; their own time limit is earlier."""


class ConsumerEnd(Protocol):
    """The consumer, which stores no offsets by itself. Each call returns its result, or an
    awaitable of that."""

    def start(self, topics: Sequence[str]) -> Any:
        """Join the group. Raises UserError for a consumer that may copy twice."""
        ...

    def take(self, timeout: float, most: int) -> Any:
        """:data:`Taken`, the group's metadata of before the messages were taken."""
        ...

    def processed(self, positions: Mapping[TopicPartition, int]) -> Any:
        """See :class:`~tallymark.client.connector.for_transactions.ForTransactions`; the next
        too."""
        ...

    def rewind_to_committed(self, first: Mapping[TopicPartition, int]) -> Any: ...


class ProducerEnd(Protocol):
    """The producer: its calls, or those of :class:`~tallymark.client.AsyncProducer`."""

    def init_transactions(self) -> Any: ...
    def begin_transaction(self) -> Any: ...
    def send(
        self,
        topic: str,
        value: Any = ...,
        *,
        key: Any = ...,
        partition: int | None = ...,
        timestamp: int | None = ...,
        headers: Iterable[Any] = ...,
        on_delivery: OnDelivery | None = ...,
    ) -> Any: ...
    def send_offsets_to_transaction(
        self, positions: Mapping[TopicPartition, int], group: GroupMetadata
    ) -> Any: ...
    def flush(self, timeout: float) -> Any: ...
    def commit_transaction(self) -> Any: ...
    def abort_transaction(self) -> Any: ...


class CopyMachine:
    """See the module. ``transform`` returns the records for a message, or an awaitable of them
    where awaitables are awaited. Raises UserError for no topic, and ``max_records`` below 1."""

    def __init__(
        self,
        consumer: ConsumerEnd,
        producer: ProducerEnd,
        topics: str | Sequence[str],
        transform: Callable[[Message], Any],
        max_records: int,
    ) -> None:
        if max_records < 1:
            raise UserError(f"max_records={max_records} is not possible", "give 1 or more")
        self._consumer = consumer
        self._producer = producer
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        if not self._topics:
            raise UserError("the copier reads no topic", "name one")
        self._transform = transform
        self._max_records = max_records
        self._initialised = False
        self._started = False
        self._open = False
        """A transaction is open, or may be, and is to be aborted before the next one."""
        self._in_doubt = False
        """A commit was asked for, and whether it is done is not known."""
        self._cut_off = False
        """A step was, so a call may have been done that no answer came to."""
        self._back: dict[TopicPartition, int] = {}
        """Partitions that have to go back to the committed offset, with the first one taken."""
        self._lost: TallymarkError | None = None

    def run(
        self,
        stopped: Callable[[], bool],
        pause: Callable[[float], Any],
        now: Callable[[], float],
        patience: float,
    ) -> Steps[int]:
        """Steps until ``stopped``; see :meth:`~tallymark.copying.Copier.run`. ``pause`` waits so
        many seconds, or until it is to stop; ``now`` is a monotonic clock, seconds."""
        copied, seconds, since = 0, _PAUSE, now()
        while not stopped():
            try:
                copied += yield from self.step(STEP_SECONDS)
                seconds, since = _PAUSE, now()
            except TallymarkError as error:
                if not _passes(error) or now() - since > patience:
                    raise
                LOG.warning("the messages are read again, since: %s", error)
                yield pause(seconds)
                seconds = min(2 * seconds, _LONGEST_PAUSE)
        return copied

    def step(self, timeout: float) -> Steps[int]:
        """One transaction; see :meth:`~tallymark.copying.Copier.step`."""
        try:
            return (yield from self._step(timeout))
        except Exception:
            raise
        except BaseException:
            self._cut_off = True
            raise

    def _step(self, timeout: float) -> Steps[int]:
        yield from self._settle()
        yield from self._start()
        group, messages = yield self._consumer.take(timeout, self._max_records)
        if not messages:
            return 0
        self._back = {(m.topic, m.partition): m.offset for m in reversed(messages)}
        if group is None:  # taken by a member of nothing: they cannot be committed
            yield from self._settle()
            return 0
        try:
            yield from self._copy(messages, group)
        except CommitInDoubt:
            raise
        except Exception:
            yield from self._settle_soon()
            raise
        self._back = {}
        return len(messages)

    # -- one transaction ----------------------------------------------------------------------

    def _copy(self, messages: Sequence[Message], group: GroupMetadata) -> Steps[None]:
        producer, self._lost = self._producer, None
        self._open = True  # also where the call is cut off
        try:
            yield producer.begin_transaction()
        except Exception:
            self._open = False
            raise
        for message in messages:
            for record in (yield self._transform(message)):
                yield self._send(record)
        positions = positions_after(messages)
        yield producer.send_offsets_to_transaction(positions, group)
        yield producer.flush(_ONE_CALL)
        if self._lost is not None:
            raise self._lost
        yield self._consumer.processed(positions)
        yield from self._commit()

    def _send(self, record: OutgoingRecord) -> Any:
        return self._producer.send(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=record.headers,
            on_delivery=self._delivered,
        )

    def _delivered(self, error: Exception | None, _: RecordMetadata | None) -> None:
        if isinstance(error, TallymarkError) and not isinstance(error, RecordDroppedError):
            self._lost = self._lost or error

    def _commit(self) -> Steps[None]:
        self._in_doubt = True
        try:
            yield self._producer.commit_transaction()
        except CommitInDoubt:
            raise
        except LocalProtocolError:
            if not self._cut_off:
                self._in_doubt = False
                raise
            # Nothing is open any more: the commit that was cut off is done.
        except Exception:
            self._in_doubt = False
            raise
        self._open = self._in_doubt = self._cut_off = False

    # -- after what went wrong ----------------------------------------------------------------

    def _settle(self) -> Steps[None]:
        """What has to be done before the next transaction. Raises what keeps it from that; it is
        tried again at the next step."""
        if self._in_doubt:
            yield from self._commit()
            self._back = {}
        if self._open:
            try:
                yield self._producer.abort_transaction()
            except LocalProtocolError:
                if not self._cut_off:
                    raise
                # Nothing is open: it was cut off before the beginning, or after the abort.
            self._open = self._cut_off = False
        if self._back:
            yield self._consumer.rewind_to_committed(self._back)
            self._back = {}

    def _settle_soon(self) -> Steps[None]:
        """At once, since readers wait for the end of what is open; else at the next step."""
        try:
            yield from self._settle()
        except TallymarkError as error:  # the first error is the one to be seen
            LOG.warning("not aborted yet: %s", error)

    def _start(self) -> Steps[None]:
        """The producer first: it ends what the last one of its id has left open, which the
        committed offsets wait for."""
        if not self._initialised:
            yield self._producer.init_transactions()
            self._initialised = True
        if not self._started:
            yield self._consumer.start(self._topics)
            self._started = True


def _passes(error: TallymarkError) -> bool:
    """Whether reading the same again may succeed, after a while."""
    if isinstance(error, KafkaError):
        return error.retriable or isinstance(error, CommitFailedError) or error.code in _BY_ABORT
    return isinstance(error, _PASSING)


_PASSING: Final = (
    *(TransactionAbortableError, CommitInDoubt),
    *(TimedOutError, ConnectError, BufferFullError),
)
_BY_ABORT: Final = frozenset(
    CODES[name]
    for name in (
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "INVALID_TXN_STATE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
        "TRANSACTION_ABORTABLE",
    )
)
"""Of a batch: whether another producer has the id, the abort says."""
