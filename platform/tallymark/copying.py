"""Consume, transform, produce: exactly once, by transactions.

::

    take messages ──► begin ──► send what they become ──► send their positions ──► commit
         ▲                               │ anything fails, or partitions move
         └── go back to the committed ◄──┴── abort

What a group has read and what was made of it are committed together, so neither is ever there
without the other: not after a kill, not when partitions move, not when a commit is in doubt. The
three things that loops written by hand forget:

* the group's metadata are those of *before* the messages were taken (KIP-447), since partitions may
  move in the middle; positions of a member that has lost them are refused, and abort;
* positions are those of the messages in the transaction, not of the partitions owned at its end;
* after an abort the consumer goes back to the committed positions, and reads the same again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tallymark.client import ConsumerConnector, GroupMetadata, OutgoingRecord, Producer
from tallymark.client.consuming.stream import Stream
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.stamps import STAMP_HEADER
from tallymark.client.reading.message import Message
from tallymark.errors import (
    CODES,
    BufferFullError,
    CommitFailedError,
    CommitInDoubt,
    ConnectError,
    KafkaError,
    RecordDroppedError,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
    UserError,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger(__name__)
Transform: TypeAlias = Callable[[Message], Iterable[OutgoingRecord]]
"""What is sent for a message: none, one or several records."""
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0


def to_topic(topic: str) -> Transform:
    """Copies each message to ``topic``: key, value, headers and time as they are, the partition as
    its key says; without a key into the partition of the same number, so that order stays. The
    audit's stamp is left out: a copy is a message of its own producer."""

    def copy(message: Message) -> list[OutgoingRecord]:
        return [
            OutgoingRecord(
                topic,
                message.value,
                message.key,
                None if message.key is not None else message.partition,
                message.timestamp,
                tuple(header for header in message.headers if header[0] != STAMP_HEADER),
            )
        ]

    return copy


def positions_after(messages: Iterable[Message]) -> dict[TopicPartition, int]:
    """The next offset to read of each partition: what ``send_offsets_to_transaction`` takes."""
    found: dict[TopicPartition, int] = {}
    for message in messages:
        place = (message.topic, message.partition)
        found[place] = max(found.get(place, 0), message.offset + 1)
    return found


class Copier:
    """Reads ``topics`` in the group of ``consumer``, and sends what ``transform`` makes of each
    message, ``max_records`` messages a transaction at most. For one thread.

    ``consumer`` has ``enable_auto_commit=False`` and ``isolation="read_committed"``; ``producer``
    has a ``transactional_id`` that no other copier has at the same time: one that takes it fences
    this one. Both are closed by their owner, the producer first: that aborts what is open.

    Raises UserError for a consumer that does not fit, LocalProtocolError for a producer without
    transactions.
    """

    def __init__(
        self,
        consumer: ConsumerConnector,
        producer: Producer,
        topics: str | Sequence[str],
        transform: Transform,
        *,
        max_records: int = 750,
    ) -> None:
        consumer.check_transactional()
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
        self._stream: Stream | None = None
        self._open = False
        """A transaction is open, or may be, and is to be aborted before the next one."""
        self._in_doubt = False
        """A commit was asked for, and whether it is done is not known."""
        self._back: dict[TopicPartition, int] = {}
        """Partitions that have to go back to the committed offset, with the first one taken."""
        self._lost: TallymarkError | None = None

    def run(self, stop: threading.Event, *, patience: float = 300.0) -> int:
        """Copy until ``stop`` is set; returns how many messages were read by transactions that are
        committed. What passes by itself (no coordinator, a rebalance, a lost batch) is logged, and
        the same messages are read again.

        Raises TransactionFatalError where another producer has the id, any error that does not
        pass, one of ``transform`` too, and one that has kept it from copying for ``patience``
        seconds. All of them leave nothing half done: a new Copier under the same id goes on.
        """
        copied, pause, since = 0, _PAUSE, time.monotonic()
        while not stop.is_set():
            try:
                copied += self.step()
                pause, since = _PAUSE, time.monotonic()
            except TallymarkError as error:
                if not _passes(error) or time.monotonic() - since > patience:
                    raise
                LOG.warning("the messages are read again, since: %s", error)
                stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        return copied

    def step(self, timeout: float = 1.0) -> int:
        """Copy what comes within ``timeout`` seconds, in one transaction; returns how many messages
        it had, 0 where none came.

        Raises what went wrong. The transaction was aborted then, and the next step reads the same
        again; or, after CommitInDoubt, asks first whether it is committed.
        """
        self._settle()
        stream = self._started()
        group = self._group()  # before the messages: see the module
        messages = stream.poll(timeout, self._max_records)
        if not messages:
            return 0
        first = {(m.topic, m.partition): m.offset for m in reversed(messages)}
        self._back = first
        if group is None:  # taken by a member of nothing: they cannot be committed
            self._settle()
            return 0
        try:
            self._copy(messages, group)
        except CommitInDoubt:
            raise
        except Exception:
            self._settle_soon()
            raise
        self._back = {}
        return len(messages)

    # -- one transaction ----------------------------------------------------------------------

    def _copy(self, messages: Sequence[Message], group: GroupMetadata) -> None:
        producer, self._lost = self._producer, None
        producer.begin_transaction()
        self._open = True
        for message in messages:
            for record in self._transform(message):
                producer.send(
                    record.topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=record.headers,
                    on_delivery=self._delivered,
                )
        positions = positions_after(messages)
        producer.send_offsets_to_transaction(positions, group)
        producer.flush(_ONE_CALL)
        if self._lost is not None:
            raise self._lost
        self._consumer.processed(positions)
        self._commit()

    def _delivered(self, error: Exception | None, _: RecordMetadata | None) -> None:
        if isinstance(error, TallymarkError) and not isinstance(error, RecordDroppedError):
            self._lost = self._lost or error

    def _commit(self) -> None:
        self._in_doubt = True
        try:
            self._producer.commit_transaction()
        except CommitInDoubt:
            raise
        except BaseException:
            self._in_doubt = False
            raise
        self._open = self._in_doubt = False

    # -- after what went wrong ----------------------------------------------------------------

    def _settle(self) -> None:
        """What has to be done before the next transaction. Raises what keeps it from that; it is
        tried again at the next step."""
        if self._in_doubt:
            self._commit()
            self._back = {}
        if self._open:
            self._producer.abort_transaction()
            self._open = False
        if self._back:
            self._consumer.rewind_to_committed(self._back)
            self._back = {}

    def _settle_soon(self) -> None:
        """At once, since readers wait for the end of what is open; else at the next step."""
        try:
            self._settle()
        except TallymarkError as error:  # the first error is the one to be seen
            LOG.warning("not aborted yet: %s", error)

    # -- the start ----------------------------------------------------------------------------

    def _started(self) -> Stream:
        """The producer first: it ends what the last one of its id has left open, which the
        committed offsets wait for."""
        if not self._initialised:
            self._producer.init_transactions()
            self._initialised = True
        if self._stream is None:
            topics, consumer = self._topics, self._consumer
            if len(topics) == 1:
                self._stream = consumer.create_message_streams({topics[0]: 1})[topics[0]][0]
            else:
                names = "|".join(topic.replace(".", r"\.") for topic in topics)
                self._stream = consumer.create_message_streams_by_filter(names, 1)[0]
        return self._stream

    def _group(self) -> GroupMetadata | None:
        try:
            return self._consumer.group_metadata()
        except CommitFailedError:
            return None


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
_ONE_CALL: Final = 120.0
"""Seconds for the records of one transaction to be delivered; their own time limit is earlier."""
