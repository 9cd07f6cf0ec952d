"""Look at a cluster: only questions, nothing is changed there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.client import Admin, SimpleConsumer
from tallymark.client.admin.configs import ConfigResource
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.client.admin.topics import TopicDescription
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.client.producing.stamps import MALFORMED, stamp_of
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.errors import (
    AuthenticationError,
    ConnectError,
    CorruptMessageError,
    KafkaError,
    TallymarkError,
    UserError,
)
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark_audit.attach.found import BrokerFound, ClusterFound, TopicFound
from tallymark_audit.attach.request import ClusterAddress
from tallymark_audit.collector.partitions.group_member import group_of
from tallymark_audit.events.audit_topic import topic_configs
from tallymark_audit.model.edges import AUDIT_TOPIC, is_audited

TIMEOUT_MS: Final = 10_000
MOST_TOPICS: Final = 500
"""Topics that are looked into; of more only their settings are asked for."""
MOST_PARTITIONS: Final = 500
"""Partitions of which the newest records are read."""
NEWEST: Final = 10
"""Records looked at of each."""
_CLIENT: Final = "tallymark-attach"
_CHUNK: Final = 500
_Served = Mapping[str, tuple[int, int]]

_SINCE: Final = (
    ("FETCH", 18, "4.1 or newer"),
    ("METADATA", 13, "4.0"),
    ("FETCH", 17, "3.9"),
    ("FETCH", 16, "3.7"),
    ("FETCH", 15, "3.5"),
    ("FETCH", 13, "3.1"),
    ("FETCH", 12, "2.7"),
    ("FETCH", 11, "2.3"),
    ("FETCH", 4, "0.11"),
)
"""The newest first: a request, the version of it, and the Kafka that brought it."""
_HEADERS_SINCE: Final = 4
"""The Fetch that may carry record batches, and so headers (KIP-82)."""


def inspect_cluster(
    place: ClusterAddress, connection: ConnectionSettings, audited: str = ".*"
) -> ClusterFound:
    """What there is at the cluster, and what its user may do there. Topics that match ``audited``
    are looked into first.

    Raises UserError: it cannot be reached, or does not let us in; KafkaError for what brokers
    refuse that an audit needs.
    """
    try:
        with (
            Admin(**connection, client_id=_CLIENT, request_timeout_ms=TIMEOUT_MS) as admin,
            SimpleConsumer(**connection, client_id=_CLIENT, request_timeout_ms=TIMEOUT_MS) as log,
        ):
            return _Inspection(place, admin, log, audited).found()
    except AuthenticationError as error:
        raise UserError(
            f"{place.name} does not let us in: {error}",
            "mend the file of --command-config; where a downstream cluster has log-ins of its own "
            "give --downstream-command-config",
        ) from error
    except ConnectError as error:
        raise UserError(
            f"{place.name} cannot be reached: {error}",
            "mend the address; if it wants TLS or a log-in, give --command-config FILE",
        ) from error


@dataclass(slots=True)
class _Seen:
    """The newest records of a topic, as far as they were read."""

    looked_at: int = 0
    stamped: int = 0
    written_at: int = -1
    servers: set[str] = field(default_factory=set[str])


class _Inspection:
    def __init__(
        self, place: ClusterAddress, admin: Admin, log: SimpleConsumer, audited: str
    ) -> None:
        self._name = place.name
        self._audited = audited
        self._admin = admin
        self._log = log

    def found(self) -> ClusterFound:
        cluster = self._admin.describe_cluster()
        served = self._admin.api_versions(broker.id for broker in cluster.brokers)
        oldest = min(served.done.values(), key=lambda one: one.get("FETCH", (0, 0))[1], default={})
        if served.done and not keeps_headers(oldest):
            raise UserError(
                f"the brokers of {self._name} speak as Kafka {release_of(oldest)}, whose records "
                "have no headers",
                "stamps are headers: Kafka 0.11 or newer is needed",
            )
        described = self._admin.describe_topics(operations=True).done
        audit_topic = described.get(AUDIT_TOPIC)
        names = [n for n, one in described.items() if not one.internal and not n.startswith("_")]
        creation = "" if audit_topic else self._creation(len(cluster.brokers))
        return ClusterFound(
            self._name,
            cluster.cluster_id,
            tuple(
                BrokerFound(one.id, one.host, one.port, _why(served.errors.get(one.id)))
                for one in cluster.brokers
            ),
            release_of(oldest) if served.done else "",
            self._topics({name: described[name] for name in sorted(names)}),
            audit_topic is not None,
            creation,
            tuple(self._missing_rights(audit_topic)),
        )

    def _creation(self, brokers: int) -> str:
        """Why the audit topic cannot be made; "" if the controller says that it can."""
        topic = NewTopic(AUDIT_TOPIC, 1, max(1, min(3, brokers)), topic_configs())
        try:
            self._admin.create_topics([topic], validate_only=True).check()
        except KafkaError as error:
            return "" if error.name == "TOPIC_ALREADY_EXISTS" else str(error)
        return ""

    def _missing_rights(self, audit_topic: TopicDescription | None) -> Iterator[str]:
        if audit_topic is not None and not _may(audit_topic, "read"):
            yield f"no right to read the topic {AUDIT_TOPIC}"
        group = group_of(self._name)
        error = self._admin.describe_groups([group]).errors.get(group)
        if isinstance(error, KafkaError) and error.name == "GROUP_AUTHORIZATION_FAILED":
            yield f"no right to use the group {group}"

    def _topics(self, described: Mapping[str, TopicDescription]) -> dict[str, TopicFound]:
        configs = self._configs(described)
        readable = {name: _may(one, "read") for name, one in described.items()}
        deep = first_topics((name for name in described if readable[name]), self._audited)
        places = [(n, part.partition) for n in deep for part in described[n].partitions]
        looked_into = frozenset(deep)
        spans = self._spans(places)
        seen = self._newest(spans)
        producers = self._producers(place for place, (low, high) in spans.items() if high > low)
        records: dict[str, int] = defaultdict(int)
        for (name, _), (low, high) in spans.items():
            records[name] += high - low
        return {
            name: TopicFound(
                partitions=len(one.partitions),
                readable=readable[name],
                timestamp_type=configs[name].get("message.timestamp.type", ""),
                compacted="compact" in configs[name].get("cleanup.policy", ""),
                records=records[name],
                producers=producers[name],
                looked_at=seen[name].looked_at,
                stamped=seen[name].stamped,
                servers=frozenset(seen[name].servers),
                written_at=seen[name].written_at,
                looked_into=name in looked_into,
            )
            for name, one in described.items()
        }

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """What the cluster returns for each topic; nothing where it refuses."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        every = [ConfigResource("topic", name) for name in names]
        wanted = ("message.timestamp.type", "cleanup.policy")
        for at in range(0, len(every), _CHUNK):
            some = self._admin.describe_configs(every[at : at + _CHUNK], names=wanted)
            for resource, configs in some.done.items():
                found[resource.name] = {n: one.value or "" for n, one in configs.items()}
        return found

    def _spans(self, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Start and end of each log, where the broker returns them."""
        if not places:
            return {}
        low, high = (
            self._admin.list_offsets(dict.fromkeys(places, end)).done for end in (EARLIEST, LATEST)
        )
        return {
            place: (low[place].offset or 0, high[place].offset or 0)
            for place in places
            if place in low and place in high
        }

    def _newest(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, _Seen]:
        found: dict[str, _Seen] = defaultdict(_Seen)
        specs = [
            FetchSpec(*place, max(low, high - NEWEST))
            for place, (low, high) in spans.items()
            if high > low
        ][:MOST_PARTITIONS]
        if not specs:
            return found
        for outcome in self._log.multifetch(specs, max_bytes=64 << 10, max_wait_ms=200):
            if isinstance(outcome, Fetched):
                _add(found[outcome.topic], outcome)
        return found

    def _producers(self, places: Iterable[TopicPartition]) -> dict[str, int]:
        """The idempotent producers that are remembered of each topic; none before Kafka 2.8."""
        found: dict[str, set[int]] = defaultdict(set)
        asked = list(places)
        try:
            told = self._admin.describe_producers(asked).done if asked else {}
        except TallymarkError:  # who cannot be asked is no reason not to audit
            told = {}
        for (topic, _), producers in told.items():
            found[topic] |= {one.producer_id for one in producers}
        return defaultdict(int, {topic: len(ids) for topic, ids in found.items()})


def first_topics(names: Iterable[str], audited: str) -> list[str]:
    """Those that are looked into: what is audited first."""
    return sorted(names, key=lambda name: (not is_audited(name, audited), name))[:MOST_TOPICS]


def _add(seen: _Seen, fetched: Fetched) -> None:
    try:
        for message in fetched:
            stamp = stamp_of(message.headers)
            seen.looked_at += 1
            seen.written_at = max(seen.written_at, message.timestamp)
            if stamp is not None and stamp != MALFORMED:
                seen.stamped += 1
                seen.servers.add(stamp.server)
    except CorruptMessageError:  # the collector will say so
        return


def _may(topic: TopicDescription, operation: str) -> bool:
    """Whether our user may; a cluster that does not say so refuses the request itself, later."""
    return topic.operations is None or operation in topic.operations


def _why(error: TallymarkError | None) -> str:
    return str(error) if error is not None else ""


def release_of(served: _Served) -> str:
    """The Kafka that serves such requests, or one up to the next of the table: a broker does not
    send its version (KIP-511 has only clients send theirs)."""
    for api, version, release in _SINCE:
        if served.get(api, (0, -1))[1] >= version:
            return release
    return "before 0.11"


def keeps_headers(served: _Served) -> bool:
    """Whether records keep the stamp, which is a header."""
    return served.get("FETCH", (0, -1))[1] >= _HEADERS_SINCE
