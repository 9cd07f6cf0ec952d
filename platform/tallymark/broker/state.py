"""The state of the broker that handlers use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tallymark.broker.fetch_sessions import FetchSessionCache, ReplicaSession
from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.metadata.port import Cluster
from tallymark.broker.metrics.counters import BrokerMetrics
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.partitions.verifier import Verifier
from tallymark.broker.replicas.suspects import FollowerConnections
from tallymark.broker.replicas.throttles import ReplicaThrottles
from tallymark.broker.security.authorizer import AllowAll, Authorizer
from tallymark.broker.security.live import Security
from tallymark.broker.security.sasl_logins import Logins
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.dynamic import Dynamic
from tallymark.broker.timed_changes import TimedChanges
from tallymark.broker.transactions.sending import MarkerSender
from tallymark.broker.transactions.shards import TransactionShards
from tallymark.log import LogManager
from tallymark.net.limits.log_rate import LogRate

REPLICA_SESSIONS: Final = 200
"""Fetch sessions of followers that are remembered at a time; those of connections that broke stay
until they are the oldest. A follower without one names all its partitions each time."""


@dataclass(slots=True)
class BrokerState:
    """The broker's one state, owned by its event loop. ``now_ms`` is the wall clock, ms UTC."""

    settings: BrokerSettings
    """The settings in force, with those changed at run time."""
    partitions: Partitions
    cluster: Cluster
    group_shards: GroupShards
    now_ms: Callable[[], int]
    security: Security
    """Users and access-control lists."""
    logins: Logins
    static_settings: BrokerSettings = field(default_factory=BrokerSettings)
    """The settings with which the broker was started."""
    dynamic: Dynamic = field(default_factory=Dynamic)
    """The settings changed at run time."""
    authorizer: Authorizer = field(default_factory=AllowAll)
    """The authorizer; handlers call it with their ``call.connection``."""
    altering: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a topic's configs are read, changed and stored."""
    metrics: BrokerMetrics = field(default_factory=BrokerMetrics)
    """The counters; see :mod:`tallymark.broker.metrics.counters`."""
    logs: LogManager | None = None
    """Every log of this broker, led or not; None in tests without a disk."""
    transaction_shards: TransactionShards = field(init=False)
    """The transactional ids that are coordinated here."""
    markers: MarkerSender | None = None
    """Sends the markers of their transactions; None while the broker starts."""
    verifier: Verifier | None = None
    """Asks coordinators of transactions; None while the broker starts."""
    timed_changes: TimedChanges = field(default_factory=TimedChanges)
    """Runs changes that continue when their client stops waiting."""
    fetch_sessions: FetchSessionCache = field(default_factory=FetchSessionCache)
    """The fetch sessions of readers."""
    replica_sessions: FetchSessionCache = field(
        default_factory=lambda: FetchSessionCache(REPLICA_SESSIONS, make=ReplicaSession)
    )
    """The fetch sessions of followers: one for each connection of another broker."""
    throttles: ReplicaThrottles | None = None
    """Which followers are held back (KIP-73); None while the broker starts."""
    follower_connections: FollowerConnections = field(default_factory=FollowerConnections)
    """Connections of other brokers that copy from this one."""
    refusals: LogRate = field(default_factory=LogRate)
    """Limits the log lines about requests that failed by the broker's own fault."""
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when all partitions that this broker leads are open."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the broker stops: parked requests are answered with the records available then."""

    def __post_init__(self) -> None:
        self.transaction_shards = TransactionShards(self.now_ms)

    @property
    def image(self) -> MetadataImage:
        """The current image of the cluster."""
        return self.partitions.image
