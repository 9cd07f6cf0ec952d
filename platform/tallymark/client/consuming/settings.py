"""A consumer connector's settings, checked."""

from __future__ import annotations

import difflib
import os
import socket
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Required

from tallymark.client.consuming.brokers import FetchClient
from tallymark.client.consuming.hooks import ConsumerHook
from tallymark.client.consuming.stream import QUEUE_BYTES
from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.core.setting_types import (
    Rule,
    at_least,
    check_callable,
    check_kinds,
    check_rules,
)
from tallymark.client.metrics import Metrics
from tallymark.client.reading.message import Gap
from tallymark.coordination import paths
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import TopicPartition

Where = Literal["zookeeper", "brokers"]
Policy = Literal["smallest", "largest", "none"]
Delivery = Literal["at_least_once", "at_most_once"]
Isolation = Literal["read_uncommitted", "read_committed"]

_ZOOKEEPER_SESSION_MS: Final = 6_000
_BROKERS_SESSION_MS: Final = 45_000
_HEARTBEAT_MS: Final = 3_000
_MAX_POLL_INTERVAL_MS: Final = 300_000
_MEANT: Final = {"earliest": "smallest", "latest": "largest"}
ASSIGNMENT_STRATEGIES: Final = ("range", "roundrobin", "cooperative-sticky")
"""Kafka's names of the divisions there are; :mod:`tallymark.client.group.state_machine.assignors`
has them."""


class ConsumerOptions(SecuritySettings, total=False):
    """The keyword arguments of
    :class:`~tallymark.client.connector.connector.ConsumerConnector`, which explains them.
    :class:`ConsumerSettings` has their defaults."""

    group: Required[str]
    zookeeper_connect: str | None
    bootstrap_servers: str | Sequence[str] | None
    coordinator: Where | None
    client_id: str
    client_rack: str
    consumer_id: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    delivery: Delivery
    auto_offset_reset: Policy
    out_of_range: Policy | None
    isolation: Isolation
    partition_assignment_strategy: str | Sequence[str] | None
    group_instance_id: str | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int | None
    metadata_max_age_ms: int
    on_gap: Callable[[Gap], None] | None
    before_release: Callable[[], Mapping[TopicPartition, int]] | None
    hooks: Sequence[ConsumerHook]
    connect_timeout_ms: int
    request_timeout_ms: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    retry_backoff_ms: int
    queue_bytes: int
    consumer_timeout_ms: float
    check_crcs: bool
    compiled_reads: bool
    start_timeout_ms: int
    client_factory: Callable[[str], FetchClient] | None
    metrics: Metrics | None


_AT_LEAST_1: Final = at_least(1)
_AT_LEAST_0: Final = at_least(0, "give 0 or more")
_RULES: Final[dict[str, Rule]] = {
    "session_timeout_ms": _AT_LEAST_1,
    "heartbeat_interval_ms": _AT_LEAST_1,
    "max_poll_interval_ms": _AT_LEAST_1,
    "metadata_max_age_ms": _AT_LEAST_1,
    "connect_timeout_ms": _AT_LEAST_1,
    "request_timeout_ms": _AT_LEAST_1,
    "fetch_max_bytes": _AT_LEAST_1,
    "queue_bytes": _AT_LEAST_1,
    "fetch_max_wait_ms": _AT_LEAST_0,
    "retry_backoff_ms": _AT_LEAST_0,
    "start_timeout_ms": _AT_LEAST_0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The values of :class:`ConsumerOptions`, checked; None is what the coordinator's default is
    for. Raises UserError for what cannot be. What is derived from them has a property."""

    group: str
    zookeeper_connect: str | None = None
    bootstrap_servers: str | Sequence[str] | None = None
    coordinator: Where | None = None
    client_id: str = "tallymark"
    client_rack: str = ""
    consumer_id: str | None = None
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5000
    delivery: Delivery = "at_least_once"
    auto_offset_reset: Policy = "smallest"
    out_of_range: Policy | None = None
    isolation: Isolation = "read_uncommitted"
    partition_assignment_strategy: str | Sequence[str] | None = None
    group_instance_id: str | None = None
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    metadata_max_age_ms: int = 10_000
    on_gap: Callable[[Gap], None] | None = None
    before_release: Callable[[], Mapping[TopicPartition, int]] | None = None
    hooks: Sequence[ConsumerHook] = ()
    connect_timeout_ms: int = 15_000
    request_timeout_ms: int = 10_000
    fetch_max_bytes: int = 1024 * 1024
    fetch_max_wait_ms: int = 500
    retry_backoff_ms: int = 100
    queue_bytes: int = QUEUE_BYTES
    consumer_timeout_ms: float = -1
    check_crcs: bool = True
    compiled_reads: bool = False
    start_timeout_ms: int = 10_000
    client_factory: Callable[[str], FetchClient] | None = None
    metrics: Metrics | None = None

    def __post_init__(self) -> None:
        check_kinds("ConsumerConnector", self)
        paths.segment(self.group, "a group")
        if self.consumer_id is not None:
            paths.segment(self.consumer_id, "a consumer id")
        _one_of("coordinator", self.coordinator, ("zookeeper", "brokers", None))
        self._check_addresses()
        policies = ("smallest", "largest", "none")
        _one_of("auto_offset_reset", self.auto_offset_reset, policies)
        _one_of("out_of_range", self.out_of_range, (*policies, None))
        _one_of("delivery", self.delivery, ("at_least_once", "at_most_once"))
        _one_of("isolation", self.isolation, ("read_uncommitted", "read_committed"))
        if self.enable_auto_commit and self.auto_commit_interval_ms < 1:
            raise UserError(
                "auto_commit_interval_ms is below 1", "or give enable_auto_commit=False"
            )
        check_rules("", self, _RULES)
        if self.delivery == "at_most_once" and not self.enable_auto_commit:
            raise UserError(
                'delivery="at_most_once" stores offsets by itself, before messages are handed out',
                "leave out enable_auto_commit=False, or commit before your own work",
            )
        if self.where == "zookeeper":
            self._refuse_brokers_own()
        else:
            self._check_group_protocol()
        check_callable(
            "ConsumerConnector",
            on_gap=self.on_gap,
            before_release=self.before_release,
            client_factory=self.client_factory,
        )

    @property
    def where(self) -> Where:
        """Where the group is coordinated, which divides the partitions."""
        return self.coordinator or ("zookeeper" if self.zookeeper_connect else "brokers")

    @property
    def servers(self) -> str:
        """The brokers that are given, comma-separated."""
        given = self.bootstrap_servers or ""
        return given if isinstance(given, str) else ",".join(given)

    @property
    def range_policy(self) -> Policy:
        """What to do where the log does not have the position (any more)."""
        return self.out_of_range or self.auto_offset_reset

    @property
    def auto_commit_ms(self) -> int:
        """How often to store offsets; 0: never by itself."""
        return self.auto_commit_interval_ms if self.enable_auto_commit else 0

    @property
    def session_ms(self) -> int:
        """Silent for so long, a consumer is taken for dead."""
        if self.session_timeout_ms is not None:
            return self.session_timeout_ms
        if self.where == "zookeeper":
            return _ZOOKEEPER_SESSION_MS
        return min(_BROKERS_SESSION_MS, self.poll_interval_ms)

    @property
    def heartbeat_ms(self) -> int:
        """How often it sends the brokers a heartbeat."""
        return self.heartbeat_interval_ms or max(1, min(_HEARTBEAT_MS, self.session_ms // 3))

    @property
    def poll_interval_ms(self) -> int:
        """How long the application may work on what it was handed out."""
        return self.max_poll_interval_ms or _MAX_POLL_INTERVAL_MS

    @property
    def strategies(self) -> tuple[str, ...]:
        """The assignors it offers, best first."""
        given = self.partition_assignment_strategy or "range"
        names = given.split(",") if isinstance(given, str) else given
        return tuple(dict.fromkeys(name.strip() for name in names))

    def _check_addresses(self) -> None:
        if self.where == "zookeeper" and not self.zookeeper_connect:
            raise UserError(
                'coordinator="zookeeper" needs ZooKeeper', "give zookeeper_connect=host:port/chroot"
            )
        if self.where == "brokers" and not (self.servers or self.zookeeper_connect):
            raise UserError(
                "the consumer does not know where the cluster is",
                "give bootstrap_servers=host:port,... or zookeeper_connect=host:port/chroot",
            )

    def _refuse_brokers_own(self) -> None:
        for name in (
            *("partition_assignment_strategy", "group_instance_id"),
            *("heartbeat_interval_ms", "max_poll_interval_ms"),
        ):
            if getattr(self, name) is not None:
                raise UserError(
                    f"{name} is of the brokers' group protocol; this group is in ZooKeeper",
                    'leave it out, or give coordinator="brokers"',
                )

    def _check_group_protocol(self) -> None:
        for name in self.strategies:
            _one_of("partition_assignment_strategy", name, ASSIGNMENT_STRATEGIES)
        if self.consumer_id is not None:
            raise UserError(
                "consumer_id is for groups in ZooKeeper; brokers give ids to their members",
                "give group_instance_id for a consumer that keeps its place over restarts",
            )
        if self.heartbeat_ms >= self.session_ms:
            raise UserError(
                f"heartbeat_interval_ms={self.heartbeat_ms} does not fit into "
                f"session_timeout_ms={self.session_ms}",
                "make it a third of it at most",
            )
        if self.poll_interval_ms < self.session_ms:
            # The others would go on without a member that is not known yet, before it can
            # know that itself.
            raise UserError(
                f"max_poll_interval_ms={self.poll_interval_ms} is less than "
                f"session_timeout_ms={self.session_ms}",
                "make it as long at least",
            )
        if self.group_instance_id == "":
            raise UserError("group_instance_id is empty", "give a name, or leave it out")


def new_consumer_id(group: str) -> str:
    """Unique for ever: group_host-process-random."""
    host = socket.gethostname().replace("/", "-") or "localhost"
    return f"{group}_{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _one_of(name: str, value: object, allowed: Collection[str | None]) -> None:
    if value in allowed:
        return
    names = [each for each in allowed if each is not None]
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.6)
    meant = _MEANT.get(str(value)) or (near[0] if near else "")
    choice = " or ".join(repr(each) for each in names)
    raise UserError(
        f"{name}={value!r} is none",
        f"did you mean {meant!r}?" if meant in names else f"give {choice}",
    )
