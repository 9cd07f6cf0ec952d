"""How partitions with several replicas are copied and who of them is in sync. No effect on a
partition with one replica."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from tallymark.broker.settings.fields.part import Positive, SettingsPart

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"


def _selector(text: str) -> str:
    if text not in ("", RACK_AWARE, _LEADER):
        raise ValueError(f"must be {RACK_AWARE}, {_LEADER} or empty")
    return text


class ReplicationFields(SettingsPart):
    """Followers' fetches and the time that a follower may be behind."""

    num_replica_fetchers: Annotated[int, Field(ge=1, le=64)] = 1
    """Connections on which this broker copies partitions from each leader, which are divided among
    them. Has an effect only on partitions with several replicas."""

    replica_fetch_min_bytes: Annotated[int, Field(ge=0, le=_INT_MAX)] = 1
    """A leader answers a follower's fetch as soon as it has so many bytes. Has an effect only on
    partitions with several replicas."""

    replica_fetch_wait_max_ms: Annotated[int, Field(ge=0, le=_INT_MAX)] = 500
    """A leader answers a follower's fetch after so long, whatever it has. Not above
    ``replica.lag.time.max.ms`` and ``replica.socket.timeout.ms``. Has an effect only on partitions
    with several replicas."""

    replica_fetch_max_bytes: Annotated[int, Field(ge=0, le=_INT_MAX)] = 1_048_576
    """Bytes of one partition in an answer to a follower; a first batch that is larger comes whole.
    Has an effect only on partitions with several replicas."""

    replica_fetch_response_max_bytes: Annotated[int, Field(ge=0, le=_INT_MAX)] = 10_485_760
    """Bytes of an answer to a follower. Has an effect only on partitions with several replicas."""

    replica_fetch_backoff_ms: Annotated[int, Field(ge=0, le=_INT_MAX)] = 1000
    """How long a follower waits after a failure of its connection, and for the first time after one
    of a partition; a partition that goes on to fail waits longer, up to 30 s. Has an effect only on
    partitions with several replicas."""

    replica_socket_timeout_ms: Positive = 30_000
    """A follower closes a connection on which so long no answer came. Has an effect only on
    partitions with several replicas."""

    leader_replication_throttled_rate: Annotated[int, Field(ge=0, le=_LONG_MAX)] = _LONG_MAX
    """Bytes per second that this broker sends at most to followers of the replicas that
    ``leader.replication.throttled.replicas`` of their topics names, while they are out of sync; at
    least a megabyte, or moves take very long. Default: no limit. Has an effect only on partitions
    with several replicas."""

    follower_replication_throttled_rate: Annotated[int, Field(ge=0, le=_LONG_MAX)] = _LONG_MAX
    """Bytes per second that this broker copies at most of the replicas that
    ``follower.replication.throttled.replicas`` of their topics names, while they are out of sync.
    Default: no limit. Has an effect only on partitions with several replicas."""

    replica_selector_class: Annotated[str, AfterValidator(_selector)] = ""
    """Which replica a consumer that names its rack (``client.rack``) reads from:
    ``org.apache.kafka.common.replica.RackAwareReplicaSelector``: one in its rack (``broker.rack``)
    that is in sync; empty: the leader. Has an effect only on partitions with several replicas."""

    replica_lag_time_max_ms: Positive = 30_000
    """A follower that did not have all of its leader's records for so long leaves the in-sync
    replicas. Has an effect only on partitions with several replicas."""

    log_truncated_max_bytes: Annotated[int, Field(ge=0)] = 1_073_741_824
    """Bytes in each of ``log.dirs`` for committed records that a replica gives up after an unclean
    election: they are saved in folders named ``-truncated`` before its log is cut, the oldest are
    removed for newer ones, and ``tallymark audit repair`` puts them back. 0: they are not saved.
    Has an effect only on partitions with several replicas."""

    replication_incidents_topic: str = "_tallymark_incidents"
    """A topic that gets a record of each unclean election, and of each cut of committed records:
    the audit makes incidents of them. It is made when there is the first one, with up to three
    replicas. Empty: only the file ``replication-incidents.jsonl`` in the first of ``log.dirs`` has
    them. Has an effect only on partitions with several replicas."""
