"""What clients may ask for and keep: bounds on requests, connections, groups and their offsets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tallymark.broker.settings.fields.part import Limit, Positive, SettingsPart


class ClientFields(SettingsPart):
    """Bounds on fetches, requests, connections, committed offsets and members of groups."""

    fetch_max_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 57_671_680
    """The most bytes that one fetch is answered with, whatever it asks for."""

    max_incremental_fetch_session_cache_slots: Annotated[int, Field(ge=0, le=10_000_000)] = 1000
    """Readers for which the broker remembers what they read, so that neither requests nor answers
    name unchanged partitions (fetch sessions). Others name all of them each time."""

    socket_request_max_bytes: Annotated[int, Field(ge=64, le=2**31 - 1)] = 104_857_600
    """A request that announces more bytes closes its connection."""

    socket_request_small_max_bytes: Annotated[int, Field(ge=64, le=2**31 - 1)] = 2_097_152
    """The same for requests other than Produce and SyncGroup: they are decoded into many small
    objects, which take some dozen times their size."""

    queued_max_request_bytes: Limit = 536_870_912
    """What all requests that have not arrived as a whole yet may take together; one more request
    may go beyond it. Connections beyond that wait."""

    request_arrival_max_ms: Positive = 120_000
    """A connection whose request is not whole so long after its first byte is closed."""

    connections_max_idle_ms: Positive = 600_000
    """A connection on which nothing moved for so long is closed."""

    max_connections: Positive = 10_000
    """Connections beyond this number, of all listeners together, are closed at once. Half of the
    descriptors that the process may have (``ulimit -n``), less 32, is the most."""

    max_connections_per_ip: Positive = 2**31 - 1
    """The same for the connections from one address."""

    offsets_topic_num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Partitions of ``__consumer_offsets``, fixed when it is created. One here, Kafka has 50."""

    offsets_topic_replication_factor: Annotated[int, Field(ge=1, le=32_767)] = 3
    """Replicas of each of them. While fewer brokers live the topic is not created, and clients find
    no coordinator. It has one replica while the feature level ``replication.version`` is 0."""

    offset_metadata_max_bytes: Annotated[int, Field(ge=0, le=32_767)] = 4096
    """The longest text that may go with a committed offset."""

    offsets_retention_minutes: Annotated[int, Field(ge=1, le=2**31 - 1)] = 10_080
    """Committed offsets of a group that has been empty for so long are forgotten; so are those of a
    topic that a group of consumers has not committed on for so long and is not subscribed to."""

    offsets_retention_check_interval_ms: Positive = 600_000
    """How often groups are looked over for offsets to be forgotten."""

    group_min_session_timeout_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] = 6_000
    """The shortest session timeout that a member of a group may ask for."""

    group_max_session_timeout_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1_800_000
    """The longest session timeout that a member of a group may ask for."""

    group_initial_rebalance_delay_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] = 3_000
    """How long the first rebalance of an empty group waits for more members; each that comes makes
    it wait again, up to the rebalance timeout. 0 answers the first member at once."""

    group_max_size: Annotated[int, Field(ge=1, le=2**31 - 1)] = 10_000
    """The most members of a group. (Kafka has no limit by default.)"""
