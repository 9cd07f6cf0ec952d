"""Going elsewhere in owned partitions: the paper's rewind.

A new position is a new :class:`~tallymark.client.consuming.subscription_state.PartitionProgress`:
what is queued or on its way for the old one finds its partition given up, and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tallymark.client.consuming.brokers import BrokerLink
from tallymark.client.consuming.fetcher import FetcherThread
from tallymark.client.consuming.reset import POLICIES
from tallymark.client.consuming.stream import Stream
from tallymark.client.consuming.subscription_state import (
    PartitionProgress,
    SubscriptionState,
    not_owned,
)
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import CommitFailedError, ConnectError, UserError
from tallymark.protocol.topic_partition import TopicPartition

_WAYS: Final = "give one of to_time_ms, to_offset and to"


class Rewinder:
    """Moves the positions of one connector. Thread-safe."""

    def __init__(
        self,
        link: BrokerLink,
        positions: SubscriptionState,
        streams: Sequence[Stream],
        fetcher: FetcherThread,
    ) -> None:
        self._link = link
        self._positions = positions
        self._streams = streams
        self._fetcher = fetcher

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Go on at ``offset``. CommitFailedError: the partition is not owned (any more)."""
        if type(offset) is not int or offset < 0:
            raise UserError(f"{offset!r} is no offset of {place[0]}-{place[1]}", "give 0 or more")
        with self._positions.changing:
            old = self._positions.item(place)
            if not old.active:  # given up, and about to be forgotten: nothing may revive it
                raise not_owned(place)
            self._positions.replace(old.moved_to(offset))
            self._streams[old.stream].revoke([old])
            self._fetcher.assign(self._positions.items())

    def rewind(
        self,
        to_time_ms: int | None,
        to_offset: int | None,
        to: str | None,
        wanted: Callable[[PartitionProgress], bool],
    ) -> dict[TopicPartition, int]:
        """See :meth:`~tallymark.client.connector.connector.ConsumerConnector.rewind`."""
        if sum(way is not None for way in (to_time_ms, to_offset, to)) != 1:
            raise UserError("rewind() does not know where to", _WAYS)
        if to is not None and to not in POLICIES:
            raise UserError(f"rewind(to={to!r}) is no place", "give 'smallest' or 'largest'")
        if to_time_ms is not None and to_time_ms < 0:
            raise UserError(
                f"rewind(to_time_ms={to_time_ms}) is no time", "give ms since 1970, UTC"
            )
        moved: dict[TopicPartition, int] = {}
        for item in filter(wanted, self._positions.items()):
            place = (item.topic, item.partition)
            offset = to_offset
            if offset is None:
                offset = self._offset(place, POLICIES[to] if to is not None else to_time_ms or 0)
            try:
                self.seek(place, offset)
            except CommitFailedError:
                continue  # it went to another consumer while we asked
            moved[place] = offset
        return moved

    def to_stored(
        self,
        first: Mapping[TopicPartition, int],
        read: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, Position]],
    ) -> dict[TopicPartition, int]:
        """Go on where ``read`` says that the group has come to, in each of the partitions of
        ``first``; at its offset there where nothing is stored. Partitions that were given up, also
        those that have come back since, are left as they are."""
        before = {(i.topic, i.partition): i for i in self._positions.items()}
        ours = [place for place in sorted(first) if place in before]
        stored = read(ours) if ours else {}
        moved: dict[TopicPartition, int] = {}
        for place in ours:
            offset = stored[place].offset if place in stored else first[place]
            with self._positions.changing:
                if before[place] not in self._positions.items():
                    continue  # its next owner may have stored more since, which may be we
                with suppress(CommitFailedError):
                    self.seek(place, offset)
                    moved[place] = offset
        return moved

    def _offset(self, place: TopicPartition, time: int) -> int:
        client = self._link.client()
        if client is None:
            raise ConnectError("the brokers", "bootstrap", "none is known yet")
        return client.get_offsets_before(*place, time)[0]
