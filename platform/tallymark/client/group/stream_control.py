"""What a group member's decisions do to streams, fetcher and positions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tallymark.client.consuming.assignment import split_range
from tallymark.client.consuming.commit import PASSING
from tallymark.client.consuming.coordination import Parts
from tallymark.coordination.consumers.offsets import Position
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")


class StreamControl:
    """``stop``, ``start`` and ``pause`` are quick and do not wait for the network; ``release``,
    ``load``, ``forget`` and ``commit`` do, or for another thread that does: call them elsewhere."""

    def __init__(self, parts: Parts, *, auto_commit: bool) -> None:
        self._subscription = parts.subscription
        self._streams = parts.streams
        self._first_stream = parts.first_stream
        self._gate = parts.gate
        self._fetcher = parts.fetcher
        self._positions = parts.positions
        self._committer = parts.committer
        self._before_release = parts.before_release
        self._auto_commit = auto_commit
        self._stored: dict[TopicPartition, Position] = {}

    # -- quick --------------------------------------------------------------------------------

    def stop(self, places: Sequence[TopicPartition]) -> None:
        """Drop what is queued of these partitions, and hand out nothing more."""
        wanted = set(places)
        with self._positions.changing:
            items = self._positions.items()
            gone = [item for item in items if (item.topic, item.partition) in wanted]
            self._fetcher.assign([item for item in items if item not in gone and item.active])
            for number, stream in enumerate(self._streams):
                stream.revoke([item for item in gone if item.stream == number])

    def start(self, places: Sequence[TopicPartition]) -> None:
        """Fetch these too, from where :meth:`load` said."""
        with self._positions.changing:
            kept = {(i.topic, i.partition): i.stream for i in self._positions.items()}
            items = self._positions.add(
                place_in_streams(places, kept, self._subscription, self._first_stream),
                self._stored,
            )
            self._fetcher.assign(items)

    def pause(self) -> None:
        """Hand out nothing until :meth:`resume`."""
        self._gate.suspend()

    def resume(self) -> None:
        """Hand out again."""
        self._gate.open(self._gate.mark())
        for stream in self._streams:
            stream.wake()
        self._fetcher.wake()

    # -- these wait ---------------------------------------------------------------------------

    def release(self) -> None:
        """Let the application finish, store how far it has come. What fails is logged: the group
        must not wait for it, and messages that were not stored are delivered again."""
        if self._before_release is not None and self._positions.items():
            try:
                offsets = self._before_release()
            except Exception:
                LOG.exception("the before_release callback failed")
            else:
                self._try(lambda: self._committer.commit_owned(offsets))
        if self._auto_commit:
            self._try(lambda: self._committer.commit(last=True))

    def commit(self) -> None:
        """What auto-commit does."""
        self._try(self._committer.commit)

    def load(self, places: Sequence[TopicPartition]) -> bool:
        """Read the stored offsets; False: it failed in a way that passes."""
        try:
            self._stored = self._committer.load(places)
        except PASSING as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            LOG.warning("offsets could not be read, trying on: %s", error)
            return False
        return True

    def forget(self, places: Sequence[TopicPartition]) -> None:
        """These are no longer ours."""
        self._committer.forget(places)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except PASSING as error:
            LOG.warning("offsets were not stored: %s", error)


def place_in_streams(
    places: Sequence[TopicPartition],
    kept: Mapping[TopicPartition, int],
    subscription: Subscription,
    first_stream: Mapping[str, int],
) -> dict[TopicPartition, int]:
    """Which of the consumer's streams reads each of ``places``. A topic that is new is divided by
    range; where a part of it is read already, each goes to the stream that reads least of it."""
    placed: dict[TopicPartition, int] = {}
    for topic in sorted({topic for topic, _ in places}):
        first = first_stream.get(topic, 0)
        loads = {first + number: 0 for number in range(subscription.streams_of(topic))}
        for place, stream in kept.items():
            if place[0] == topic and stream in loads:
                loads[stream] += 1
        new = sorted(place for place in places if place[0] == topic)
        if not any(loads.values()):
            for stream, share in zip(loads, split_range(new, len(loads)), strict=True):
                placed.update(dict.fromkeys(share, stream))
            continue
        for place in new:
            stream = min(loads, key=lambda number: (loads[number], number))
            placed[place] = stream
            loads[stream] += 1
    return placed
