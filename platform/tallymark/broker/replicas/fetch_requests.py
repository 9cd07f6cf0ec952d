"""Which partitions the next Fetch asks for, and what goes on the wire. Pure.

Left out: partitions in which a step is being done, that are set aside after a failure, or that are
throttled while their limit is used up (KIP-73). The leader waits no longer than until the next of
these may be asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.sessions import Key, NextFetch
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    ListOffsetsRequest,
)
from tallymark.protocol.messages.k01_fetch import (
    FetchRequestForgottenTopic,
    FetchRequestReplicaState,
)
from tallymark.protocol.messages.k02_list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.protocol.wire.fetch import Replica
from tallymark.replication.following import Ask
from tallymark.replication.throttle import ReplicationThrottle

FIRST_VERSION: Final = 15
"""The first Fetch that says under which registration a follower asks (KIP-903); an older one would
not count."""

MOST_NEW: Final = 1000
"""New partitions of a session in a request: it is encoded, and its answer decoded, in one turn of
the event loop each, some 5 ms."""


class Candidate(NamedTuple):
    """A partition: its ask, None while it is not to be asked; when that ends (ms, 0: it is not
    known); whether its bytes count for the throttle."""

    key: Key
    ask: Ask | None
    paused_until_ms: int
    throttled: bool


class Choice(NamedTuple):
    """``asks`` is what to ask. ``throttled``: of these, whose bytes count. ``again_ms``: when
    something that was left out is to be looked at again, None for never."""

    asks: dict[Key, Ask]
    throttled: frozenset[Key]
    again_ms: int | None

    def wait_ms(self, now_ms: int, settings: FetchSettings) -> int:
        """How long the leader may wait for records."""
        longest = settings.replica_fetch_wait_max_ms
        return longest if self.again_ms is None else min(longest, max(0, self.again_ms - now_ms))


def choose(candidates: Iterable[Candidate], throttle: ReplicationThrottle, now_ms: int) -> Choice:
    """What the next Fetch asks for, in the order of the candidates."""
    asks: dict[Key, Ask] = {}
    counted: list[Key] = []
    again: list[int] = []
    allowed = throttle.allows(now_ms)
    for key, ask, paused_until_ms, throttled in candidates:
        if ask is None:
            if paused_until_ms > now_ms:
                again.append(paused_until_ms)
        elif throttled and not allowed:
            again.append(now_ms + throttle.wait_ms(now_ms))
        else:
            asks[key] = ask
            if throttled:
                counted.append(key)
    return Choice(asks, frozenset(counted), min(again, default=None))


def in_parts(choice: Choice, known: Mapping[Key, Ask], most: int | None = None) -> Choice:
    """The choice with at most ``most`` partitions (:data:`MOST_NEW`) that the session does not have
    yet (``known``): the next requests name the others."""
    room = MOST_NEW if most is None else most
    if len(choice.asks) - len(known) <= room:
        return choice
    asks: dict[Key, Ask] = {}
    for key, ask in choice.asks.items():
        is_new = key not in known
        room -= is_new
        if not is_new or room >= 0:
            asks[key] = ask
    return choice._replace(asks=asks)


def fetch_request(
    fetch: NextFetch, me: Replica, settings: FetchSettings, max_wait_ms: int
) -> FetchRequest:
    """The Fetch of broker ``me.id``, registered under ``me.epoch``; from v15 on. Adjacent
    partitions of a topic are joined."""
    return FetchRequest(
        replica_state=FetchRequestReplicaState(replica_id=me.id, replica_epoch=me.epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=settings.replica_fetch_min_bytes,
        max_bytes=settings.replica_fetch_response_max_bytes,
        session_id=fetch.session_id,
        session_epoch=fetch.session_epoch,
        topics=tuple(
            FetchRequestTopic(
                topic_id=topic,
                partitions=tuple(
                    _partition(index, ask, settings.replica_fetch_max_bytes)
                    for (_, index), ask in named
                ),
            )
            for topic, named in groupby(fetch.named, key=lambda one: one[0][0])
        ),
        forgotten_topics_data=tuple(
            FetchRequestForgottenTopic(topic_id=topic, partitions=tuple(index for _, index in keys))
            for topic, keys in groupby(fetch.forgotten, key=lambda key: key[0])
        ),
    )


def _partition(index: int, ask: Ask, max_bytes: int) -> FetchRequestPartition:
    return FetchRequestPartition(
        partition=index,
        current_leader_epoch=ask.leader_epoch,
        fetch_offset=ask.offset,
        last_fetched_epoch=ask.last_epoch,
        log_start_offset=ask.log_start,
        partition_max_bytes=max_bytes,
        high_watermark=ask.high_watermark,
        corrupt=ask.corrupt,
    )


def range_requests(
    partition: TopicPartition, leader_epoch: int, me: Replica, times: Sequence[int]
) -> list[ListOffsetsRequest]:
    """One request for each of ``times`` (EARLIEST, LATEST): a partition may be named once in
    each."""
    topic, index = partition
    return [
        ListOffsetsRequest(
            replica_id=me.id,
            topics=(
                ListOffsetsRequestTopic(
                    name=topic,
                    partitions=(
                        ListOffsetsRequestPartition(
                            partition_index=index,
                            current_leader_epoch=leader_epoch,
                            timestamp=time,
                        ),
                    ),
                ),
            ),
        )
        for time in times
    ]
