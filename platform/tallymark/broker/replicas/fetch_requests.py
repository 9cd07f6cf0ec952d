"""What a follower asks, as it goes on the wire. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.sessions import NextFetch
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

FIRST_VERSION: Final = 15
"""The first Fetch that says under which registration a follower asks (KIP-903); an older one would
not count."""


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
