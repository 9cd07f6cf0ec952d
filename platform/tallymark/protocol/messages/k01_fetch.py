"""Fetch (key 1): read record batches from partitions, waiting for ``min_bytes``.

* v5 adds the log start offset, v7 fetch sessions (KIP-227), v9 leader epochs (KIP-320)
* v10 allows zstd, v11 follower fetching (KIP-392)
* v12 is flexible and returns a diverging epoch at once (KIP-595)
* v13 names topics by id
* v15 moves the replica id into a tagged struct
* v16 returns the new leader's address (KIP-951), v17 a follower's directory, v18 its high watermark
* a follower of ours names a batch that came corrupt, by a tagged field that Kafka does not have:
  other brokers skip it, and no client sends it
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Buffer,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    Request,
    String,
    Struct,
    Uuid,
    f,
    wire,
)

CORRUPT_TAG: Final = 10_000
"""Far above the tags of Kafka."""


@wire
class FetchResponseEpochEndOffset(Struct):
    """Where the leader's log left the epoch that the request named."""

    epoch: int = f(Int32, since=12, default=-1, about="Largest epoch not above the named one.")
    end_offset: int = f(Int64, since=12, default=-1, about="Where that epoch ends.")


@wire
class FetchResponseLeader(Struct):
    """The leader of the partition now."""

    leader_id: int = f(Int32, since=12, default=-1, about="Broker id, -1 when unknown.")
    leader_epoch: int = f(Int32, since=12, default=-1, about="Its epoch, -1 when unknown.")


@wire
class FetchResponseSnapshot(Struct):
    """The snapshot that stands for the log below its start (metadata logs only)."""

    end_offset: int = f(Int64, default=-1, about="Where the snapshot ends.")
    epoch: int = f(Int32, default=-1, about="Epoch of its end.")


@wire
class FetchResponseAbortedTransaction(Struct):
    """A transaction whose records a read-committed reader leaves out."""

    producer_id: int = f(Int64, since=4, about="Its producer.")
    first_offset: int = f(Int64, since=4, about="Offset of its first record.")


@wire
class FetchResponsePartition(Struct):
    """Batches of one partition. The first may begin below the asked offset, the last may be cut."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why there are no records.")
    high_watermark: int = f(Int64, about="End of what all in-sync replicas have.")
    last_stable_offset: int = f(
        Int64, since=4, default=-1, about="End of what no open transaction touches."
    )
    log_start_offset: int = f(Int64, since=5, default=-1, about="First offset of the log.")
    diverging_epoch: FetchResponseEpochEndOffset = f(
        FetchResponseEpochEndOffset,
        since=12,
        tag=0,
        about="Set when the log was cut below the asked offset: where the reader's log parts.",
    )
    current_leader: FetchResponseLeader = f(
        FetchResponseLeader, since=12, tag=1, about="The leader to turn to."
    )
    snapshot_id: FetchResponseSnapshot = f(
        FetchResponseSnapshot, since=12, tag=2, about="The snapshot to fetch instead."
    )
    aborted_transactions: Sequence[FetchResponseAbortedTransaction] | None = f(
        Array(FetchResponseAbortedTransaction),
        since=4,
        nullable_since=4,
        about="Aborted transactions within these records, or null.",
    )
    preferred_read_replica: int = f(
        Int32, since=11, default=-1, about="Nearer replica to read from, or -1."
    )
    records: Buffer | None = f(
        Records, nullable_since=0, default=None, about="Record batches, one after another."
    )


@wire
class FetchResponseTopic(Struct):
    """Batches of one topic."""

    topic: str = f(String, until=12, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=13, about="Id of the topic.")
    partitions: Sequence[FetchResponsePartition] = f(
        Array(FetchResponsePartition), about="One for each partition that has news."
    )


@wire
class FetchResponseNode(Struct):
    """Address of a leader named in a ``current_leader``."""

    node_id: int = f(Int32, since=16, about="Broker id.")
    host: str = f(String, since=16, about="Its host.")
    port: int = f(Int32, since=16, about="Its port.")
    rack: str | None = f(
        String, since=16, nullable_since=16, default=None, about="Its rack, or null."
    )


@wire
class FetchResponse(Message):
    """Records, or nothing when ``max_wait_ms`` passed first."""

    api_key = ApiKey.FETCH
    valid_versions = (4, 18)
    flexible_from = 12

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    error_code: int = f(Int16, since=7, about="0, or why the whole request failed.")
    session_id: int = f(Int32, since=7, about="Id of the fetch session, 0 for none.")
    responses: Sequence[FetchResponseTopic] = f(
        Array(FetchResponseTopic), about="One for each topic that has news."
    )
    node_endpoints: Sequence[FetchResponseNode] = f(
        Array(FetchResponseNode), since=16, tag=0, about="Addresses of the leaders named above."
    )


@wire
class FetchRequestReplicaState(Struct):
    """The follower that asks."""

    replica_id: int = f(Int32, since=15, default=-1, about="Its broker id, -1 for a consumer.")
    replica_epoch: int = f(Int64, since=15, default=-1, about="Its broker epoch, or -1.")


@wire
class FetchRequestPartition(Struct):
    """What to read of one partition."""

    partition: int = f(Int32, about="Number of the partition.")
    current_leader_epoch: int = f(
        Int32, since=9, default=-1, about="Leader epoch the reader knows; fences stale ones."
    )
    fetch_offset: int = f(Int64, about="First offset wanted.")
    last_fetched_epoch: int = f(
        Int32, since=12, default=-1, about="Epoch of the last record read, or -1."
    )
    log_start_offset: int = f(
        Int64, since=5, default=-1, about="First offset of the follower's log, -1 for a consumer."
    )
    partition_max_bytes: int = f(Int32, about="Most bytes of this partition (KIP-74).")
    replica_directory_id: uuid.UUID = f(
        Uuid, since=17, tag=0, about="Id of the follower's log directory."
    )
    high_watermark: int = f(
        Int64, since=18, tag=1, default=2**63 - 1, about="High watermark the follower knows."
    )
    corrupt: bool = f(
        Bool,
        since=15,
        tag=CORRUPT_TAG,
        about="Tallymark's own: the batch at this offset came corrupt before.",
    )


@wire
class FetchRequestTopic(Struct):
    """What to read of one topic."""

    topic: str = f(String, until=12, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=13, about="Id of the topic.")
    partitions: Sequence[FetchRequestPartition] = f(
        Array(FetchRequestPartition), about="One for each partition."
    )


@wire
class FetchRequestForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: str = f(String, since=7, until=12, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=13, about="Id of the topic.")
    partitions: Sequence[int] = f(Array(Int32), since=7, about="Numbers of the partitions.")


@wire
class FetchRequest(Request[FetchResponse]):
    """Read from these partitions."""

    api_key = ApiKey.FETCH
    valid_versions = (4, 18)
    flexible_from = 12

    cluster_id: str | None = f(
        String,
        since=12,
        nullable_since=12,
        tag=0,
        default=None,
        about="Id of the cluster the reader believes in, or null.",
    )
    replica_id: int = f(
        Int32, until=14, default=-1, about="Broker id of the follower, -1 for a consumer."
    )
    replica_state: FetchRequestReplicaState = f(
        FetchRequestReplicaState, since=15, tag=1, about="The follower that asks."
    )
    max_wait_ms: int = f(Int32, about="How long to wait for min_bytes.")
    min_bytes: int = f(Int32, about="Answer as soon as there are so many bytes.")
    max_bytes: int = f(
        Int32, since=3, default=2**31 - 1, about="Most bytes of the whole answer (KIP-74)."
    )
    isolation_level: int = f(Int8, since=4, about="0 read uncommitted, 1 read committed.")
    session_id: int = f(Int32, since=7, about="Id of the fetch session, 0 for none.")
    session_epoch: int = f(Int32, since=7, default=-1, about="Its epoch; -1 wants no session.")
    topics: Sequence[FetchRequestTopic] = f(Array(FetchRequestTopic), about="What to read.")
    forgotten_topics_data: Sequence[FetchRequestForgottenTopic] = f(
        Array(FetchRequestForgottenTopic), since=7, about="What leaves the session."
    )
    rack_id: str = f(String, since=11, about="Rack of the reader, or empty.")
