"""Message by message from the source to the target, and which of them have arrived."""

from __future__ import annotations

import logging
import queue
import time
from typing import Final

from tallymark.client.message import Message
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.mirror.holes import COMPACTION, UNKNOWN
from tallymark.mirror.observer import ObserverChain
from tallymark.mirror.progress import UNKNOWN as NONE
from tallymark.mirror.progress import CopyProgress, Partition, PartitionCopy, Turn
from tallymark.mirror.source import Source
from tallymark.mirror.target import Target
from tallymark.mirror.topics import TopicCopier

_POLL_SECONDS: Final = 0.05
_log = logging.getLogger("mirror")

Settled = tuple[PartitionCopy, int, Message, Exception | None]


class Copier:
    """Copies messages of partitions that ``source`` knows. ``copied`` counts what has arrived."""

    def __init__(
        self, source: Source, target: Target, topics: TopicCopier, observers: ObserverChain
    ) -> None:
        self.progress = CopyProgress()
        self.copied = 0
        self.failure: UserError | None = None
        """A message that the target refuses: the mirror cannot go on."""
        self._source = source
        self._target = target
        self._topics = topics
        self._observers = observers
        self._settled: queue.SimpleQueue[Settled] = queue.SimpleQueue()

    def copy(self, message: Message) -> None:
        """Send a message on, unless this run has sent it already. What passes by itself
        (ConnectError, TimedOutError, retriable KafkaError ...) leaves it unsent: try again."""
        partition = (message.topic, message.partition)
        turn = self.progress.turn(partition, message.offset, message.leader_epoch)
        if turn is Turn.ASK:
            turn = self.progress.again(partition, self._source.stored(partition))
        if turn is Turn.SKIP or not self._has_topic(message):
            return
        copy = self.progress.get(partition)
        assert copy is not None, "begun before it is copied"

        ticket = copy.ticket

        def settled(error: Exception | None) -> None:
            self._settled.put((copy, ticket, message, error))

        start, end = copy.next, message.offset
        hole = start not in (NONE, end)
        compacted = hole and self._topics.is_compacted(message.topic)
        self._target.send(message, settled)
        copy.sent(message.offset, message.leader_epoch, message.timestamp)
        if hole:  # told once the message is sent: what fails before that is tried again
            self._tell(partition, start, end, COMPACTION if compacted else UNKNOWN)

    def settle(self, seconds: float = 0.0) -> None:
        """Take note of what has arrived; wait up to ``seconds`` for news."""
        try:
            while True:
                copy, ticket, message, error = self._settled.get(seconds > 0, seconds)
                seconds = 0.0
                if error is None:
                    copy.acknowledged(message.offset, ticket)
                    self.copied += 1
                else:
                    self._refused(message, error)
        except queue.Empty:
            return

    def drain(self, seconds: float) -> bool:
        """Wait for what is in flight; whether all of it has arrived."""
        deadline = time.monotonic() + seconds
        self.settle()
        while self.progress.open_count and self.failure is None:
            if time.monotonic() >= deadline:
                return False
            self.settle(_POLL_SECONDS)
        return not self.progress.open_count

    def _has_topic(self, message: Message) -> bool:
        """See that the target has the topic; False when the message is not to be copied."""
        try:
            self._topics.ensure(message.topic)
        except KafkaError as error:
            unknown = error.code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
            if unknown and not self._source.exists(message.topic):
                self._observers.on_gap(
                    message.topic, message.partition, message.offset, message.offset + 1, "deleted"
                )
                return False
            if not error.retriable:
                raise UserError(
                    f"the target cannot have the topic {message.topic}: {error}",
                    "make it there by hand, or leave it out of the mirror's topics",
                ) from error
            raise
        return True

    def _tell(self, partition: Partition, start: int, end: int, otherwise: str) -> None:
        """Report the hole [``start``, ``end``); ``otherwise``: the reason where none is seen."""
        for hole in self._source.holes.explain(partition, start, end):
            reason = otherwise if hole.reason == UNKNOWN else hole.reason
            self._observers.on_gap(*partition, hole.start, hole.end, reason)

    def _refused(self, message: Message, error: Exception) -> None:
        """Not acknowledged: its offset is never stored, so the next start copies it again."""
        where = f"{message.topic}-{message.partition} offset {message.offset}"
        self.failure = self.failure or UserError(
            f"{where} cannot be copied: {error}",
            "mend the target's topic; the mirror goes on there when it is started again",
        )
