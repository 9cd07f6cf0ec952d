"""What was found at a cluster: the types, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class BrokerFound:
    """A broker at the address that it advertises; ``refusal``: why it cannot be reached there."""

    id: int
    host: str
    port: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic. ``timestamp_type`` is "" where the cluster does not return it; ``records``: offsets
    between start and end of its logs; ``producers``: idempotent ones that its brokers remember
    (KIP-664). ``looked_at`` of its newest records had been read, ``stamped`` of them by
    ``servers``; the newest was written at ``written_at`` (ms, -1: not known). Of one that is not
    ``looked_into`` only the settings are known: there were too many, or it may not be read."""

    partitions: int
    readable: bool = True
    timestamp_type: str = ""
    compacted: bool = False
    records: int = 0
    producers: int = 0
    looked_at: int = 0
    stamped: int = 0
    servers: frozenset[str] = frozenset()
    written_at: int = -1
    looked_into: bool = True


@dataclass(frozen=True, slots=True)
class ClusterFound:
    """A cluster. ``release`` is the Kafka whose protocol its brokers speak, "" if that is not
    known; ``refusals`` are the rights that the audit lacks there. ``topics`` are those that are not
    internal. ``has_audit_topic``: it is there already; ``creation``: why it cannot be made."""

    name: str
    cluster_id: str
    brokers: tuple[BrokerFound, ...]
    release: str = ""
    topics: Mapping[str, TopicFound] = field(default_factory=dict[str, TopicFound])
    has_audit_topic: bool = False
    creation: str = ""
    refusals: tuple[str, ...] = ()
