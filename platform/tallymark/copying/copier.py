"""Consume, transform, produce, for a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tallymark.client import ConsumerConnector, Producer
from tallymark.client.consuming.stream import Stream
from tallymark.copying.machine import STEP_SECONDS, CopyMachine, Steps, Taken
from tallymark.copying.transforming import Transform
from tallymark.errors import CommitFailedError
from tallymark.protocol.topic_partition import TopicPartition

T = TypeVar("T")


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
        end = _Consumer(consumer)
        self._machine = CopyMachine(end, producer, topics, transform, max_records)

    def run(self, stop: threading.Event, *, patience: float = 300.0) -> int:
        """Copy until ``stop`` is set; returns how many messages were read by transactions that are
        committed. What passes by itself (no coordinator, a rebalance, a lost batch) is logged, and
        the same messages are read again.

        Raises TransactionFatalError where another producer has the id, any error that does not
        pass, one of ``transform`` too, and one that has kept it from copying for ``patience``
        seconds. All of them leave nothing half done: a new Copier under the same id goes on.
        """
        return _carry_out(self._machine.run(stop.is_set, stop.wait, time.monotonic, patience))

    def step(self, timeout: float = STEP_SECONDS) -> int:
        """Copy what comes within ``timeout`` seconds, in one transaction; returns how many messages
        it had, 0 where none came.

        Raises what went wrong. The transaction was aborted then, and the next step reads the same
        again; or, after CommitInDoubt, asks first whether it is committed.
        """
        return _carry_out(self._machine.step(timeout))


def _carry_out(steps: Steps[T]) -> T:
    """Each call was made, and has blocked, when the machine yields its result."""
    try:
        found = next(steps)
        while True:
            found = steps.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


class _Consumer:
    """See :class:`~tallymark.copying.machine.ConsumerEnd`."""

    def __init__(self, connector: ConsumerConnector) -> None:
        self._connector = connector
        self._stream: Stream | None = None
        self.processed = connector.processed

    def start(self, topics: Sequence[str]) -> None:
        connector = self._connector
        if len(topics) == 1:
            self._stream = connector.create_message_streams({topics[0]: 1})[topics[0]][0]
        else:
            names = "|".join(topic.replace(".", r"\.") for topic in topics)
            self._stream = connector.create_message_streams_by_filter(names, 1)[0]

    def take(self, timeout: float, most: int) -> Taken:
        assert self._stream is not None, "start() first"
        try:
            group = self._connector.group_metadata()  # before the messages: see the package
        except CommitFailedError:
            group = None
        return group, self._stream.poll(timeout, most)

    def rewind_to_committed(self, first: Mapping[TopicPartition, int]) -> None:
        self._connector.rewind_to_committed(first)
